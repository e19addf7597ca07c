//! [`run`]: workers in Python that are killed and stopped, servers that are killed, and a line with faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::time::sleep;
use windlass::{Client, Command as Order, NewTask, store::Store};

use super::{
    run::{Settings, Shown},
    unended,
};
use crate::{
    BoxError,
    http::{line::Line, servers::Servers},
};

/// The kinds of the tasks: one for each place in which handlers run.
const KINDS: [&str; 3] = ["steps-process", "steps-thread", "steps-loop"];
/// How many steps a task has, as in `steps.py`.
const STEPS: u64 = 6;
/// How long the tasks may take to end. A task whose worker was killed waits for the TTL of 15 s.
const BOUND: Duration = Duration::from_secs(240);

/// Workers, each in a process group of its own.
struct Workers {
    running: Vec<Child>,
    url: String,
    token: String,
    folder: PathBuf,
}

impl Workers {
    fn start(&self) -> Result<Child, BoxError> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = env::var("WINDLASS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.folder.join("workers.log"))?;
        let child = Command::new(&python)
            .arg(here.join("src/remote/steps.py"))
            .env("PYTHONPATH", here.join("../../sdk/python/src"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("WINDLASS_URL", &self.url)
            .env("WINDLASS_TOKEN", &self.token)
            .env("LEDGER", self.ledger())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn();
        child.map_err(|e| format!("could not start {python}: {e}").into())
    }

    fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }

    fn signal(&self, which: usize, signal: Signal) -> Result<(), BoxError> {
        if let Some(worker) = self.running.get(which) {
            killpg(Pid::from_raw(worker.id().try_into()?), signal)?;
        }
        Ok(())
    }

    /// Kills a worker, and starts another.
    fn replace(&mut self, which: usize) -> Result<(), BoxError> {
        self.signal(which, Signal::SIGKILL)?;
        let new = self.start()?;
        if let Some(worker) = self.running.get_mut(which) {
            worker.wait()?;
            *worker = new;
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for which in 0..self.running.len() {
            // It may have ended.
            let _ = self.signal(which, Signal::SIGKILL);
        }
        for worker in &mut self.running {
            let _ = worker.wait();
        }
    }
}

/// Does one run.
///
/// # Errors
///
/// What is wrong, or what was waited for in vain.
pub async fn run(settings: &Settings, folder: &Path) -> Result<Shown, BoxError> {
    let store = Store::open(&settings.store).await?;
    let client = Client::new(&store);
    let (program, at) = (settings.program.clone(), folder.to_owned());
    let mut servers = Servers::start(program, settings.store.clone(), at, 2).await?;
    let line = Line::to(servers.addresses(), settings.seed).await?;
    let mut workers = Workers {
        running: Vec::new(),
        url: format!("http://{}", line.address()),
        token: servers.token_of("work")?,
        folder: folder.to_owned(),
    };
    for _ in 0..settings.workers {
        let worker = workers.start()?;
        workers.running.push(worker);
    }
    let ids: Vec<String> = (0..settings.tasks).map(|n| format!("task-{n}")).collect();
    for (id, kind) in ids.iter().zip(KINDS.iter().cycle()) {
        client.submit(NewTask::new(*kind).id(id.as_str())).await?;
    }
    let mut rng = fastrand::Rng::with_seed(settings.seed);
    let disturb = async {
        let mut kills = 0;
        while kills < settings.kills {
            sleep(Duration::from_millis(rng.u64(400..1200))).await;
            let which = rng.usize(..workers.running.len());
            match rng.u8(..4) {
                0 => workers.replace(which)?,
                1 => {
                    // Sometimes for longer than the TTL.
                    let long = rng.u8(..4) == 0;
                    workers.signal(which, Signal::SIGSTOP)?;
                    sleep(Duration::from_millis(if long {
                        17_000
                    } else {
                        rng.u64(100..3000)
                    }))
                    .await;
                    workers.signal(which, Signal::SIGCONT)?;
                }
                _ => {
                    let away = Duration::from_millis(rng.u64(..300));
                    servers.kill(rng.usize(..2), away).await?;
                }
            }
            kills += 1;
            let id = &ids[rng.usize(..ids.len())];
            // A task that has ended takes no command.
            let _ = client.command(id.as_str(), Order::Pause).await;
            let _ = client.command(id.as_str(), Order::Run).await;
        }
        line.calm();
        Ok::<_, BoxError>(kills)
    };
    let work = unended::all(&client, &ids, BOUND);
    let both = tokio::try_join!(disturb, work);
    let text = fs::read_to_string(workers.ledger()).unwrap_or_default();
    let (runs, mut wrong) = read(&text);
    let (kills, ()) = both.map_err(|e| format!("{e}; {}", wrong.join("; ")))?;
    for id in &ids {
        let done = client.wait(id.as_str()).await?;
        let steps = done.result::<u64>().ok();
        if steps != Some(STEPS) {
            wrong.push(format!("{id} has done {steps:?} steps"));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n").into());
    }
    let faults = line.happened();
    Ok(Shown {
        kills,
        faults,
        runs,
    })
}

/// Reads the ledger of the handlers. Returns how many runs were started, and what is wrong.
///
/// A run is named by its fence and its number. Lines are in the order in which they were written, by all processes.
fn read(text: &str) -> (usize, Vec<String>) {
    let (mut started, mut wrong) = (BTreeSet::new(), Vec::new());
    let (mut last, mut stored) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        let mut words = line.split(' ');
        let (event, task) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let [fence, run, step] = numbers[..] else {
            wrong.push(format!("the ledger has the line {line:?}"));
            continue;
        };
        let latest = last.entry(task).or_insert((fence, run));
        if (fence, run) < *latest {
            wrong.push(format!("{line:?} comes after the start of run {latest:?}"));
        }
        *latest = (fence, run).max(*latest);
        if event == "start" {
            if !started.insert((task, fence, run)) {
                wrong.push(format!("{line:?}: the run was started twice"));
            }
            let stored = stored.get(task).copied().unwrap_or(0);
            if step < stored {
                wrong.push(format!("{line:?}: step {stored} was stored before"));
            }
        }
        if event == "stored" {
            stored.insert(task, step);
        }
    }
    (started.len(), wrong)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn each_wrong_thing_is_named() {
        let found = |text: &str| read(text).1.join("; ");
        let good = "start a 1 1 0\nstep a 1 1 1\nstored a 1 1 1\nstart a 2 3 1\nstep a 2 3 2";
        assert_eq!(found(good), "");
        assert_eq!(read(good).0, 2);
        let twice = found("start a 1 1 0\nstart a 1 1 0");
        assert!(twice.contains("started twice"), "{twice}");
        let beside = found("start a 1 1 0\nstart a 2 3 0\nstep a 1 1 1");
        assert!(beside.contains("comes after the start of run"), "{beside}");
        let lost = found("start a 1 1 0\nstored a 1 1 2\nstart a 2 3 1");
        assert!(lost.contains("step 2 was stored"), "{lost}");
    }
}
