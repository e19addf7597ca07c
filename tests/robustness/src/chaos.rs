//! [`run`]: one run of everything at once, until everything has settled and was checked.

use std::{
    fmt::Write as _,
    fs,
    sync::Arc,
    time::{Duration, Instant as Moment},
};

use fastrand::Rng;
use tokio::time::{Instant, sleep, sleep_until};
use windlass::{
    Client, Code, Command,
    store::{Filter, NodeCommand, Page, Store, TaskRecord},
};

use crate::{
    BoxError,
    cluster::{self, Etcd, NAMESPACE, Shaking, Spell},
    feed::Feed,
    invariants::{self, Overlaps},
    plan::Plan,
    traffic::Traffic,
    witness::{Journal, Said},
    workers::{Programs, Role, Site, Worker},
    world::{self, World},
    zombie::{self, Standstill},
};

/// How long a worker may take to give everything back and end.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What everything random is drawn from.
    pub seed: u64,
    /// How many tasks the test submits.
    pub tasks: usize,
    /// How often a worker is killed.
    pub kills: u32,
    /// How often a worker is stopped for longer than its lease.
    pub stops: u32,
    /// How often a worker is asked to shut down, and started again.
    pub shutdowns: u32,
    /// How long the workers are disturbed.
    pub over: Duration,
    /// How long leases last.
    pub ttl: Duration,
    /// How long the writes of handlers take to reach the store, at the most.
    pub late: Duration,
    /// How long everything may take to settle afterwards.
    pub settle: Duration,
    /// Run on three members of etcd, and do this to them; on a file of SQLite without it.
    pub etcd: Option<Shaking>,
}

/// What a run was.
#[derive(Debug)]
pub struct Summary {
    /// How many tasks there were in the end, with those that tasks submitted.
    pub tasks: usize,
    /// How many commands were acknowledged.
    pub commands: usize,
    /// How many changes the histories have.
    pub changes: usize,
    /// How many claims were lost with their lease.
    pub lost: usize,
    /// How many writes of claims that were lost the store has refused.
    pub fenced: usize,
    /// How often handlers ran, and how often beside that of a later claim while their process was
    /// paused.
    pub overlaps: Overlaps,
    /// How many workers were killed.
    pub kills: u32,
    /// How many workers were stopped for a while.
    pub stops: u32,
    /// How long it took in all.
    pub took: Duration,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} tasks, {} commands, {} changes, {} kills, {} stops, {} claims lost with their lease, {} late writes refused, {} of {} runs and {} commands overlapped in a pause, in {:.1?}",
            self.tasks,
            self.commands,
            self.changes,
            self.kills,
            self.stops,
            self.lost,
            self.fenced,
            self.overlaps.excused,
            self.overlaps.runs,
            self.overlaps.commands,
            self.took
        )
    }
}

/// A run's folder, store and workers.
#[derive(Debug)]
pub struct Scene {
    folder: Option<tempfile::TempDir>,
    /// What the workers have in common.
    pub site: Arc<Site>,
    /// Sees the store.
    pub client: Client,
    /// Sends, and remembers what was promised.
    pub traffic: Traffic,
    /// The processes.
    pub workers: Vec<Worker>,
    /// What they work on, if it is not a file.
    pub etcd: Option<Etcd>,
    /// Follows the changes.
    pub feed: Feed,
}

impl Scene {
    /// Makes the folder and a store in it, and starts two workers of each role.
    ///
    /// # Errors
    ///
    /// When something cannot be made or started.
    pub async fn new(programs: Programs, ttl: Duration, late: Duration) -> Result<Self, BoxError> {
        Self::on(programs, ttl, late, false).await
    }

    /// The same, on three members of etcd.
    ///
    /// # Errors
    ///
    /// When something cannot be made or started.
    pub async fn on_etcd(
        programs: Programs,
        ttl: Duration,
        late: Duration,
    ) -> Result<Self, BoxError> {
        Self::on(programs, ttl, late, true).await
    }

    async fn on(
        programs: Programs,
        ttl: Duration,
        late: Duration,
        on_etcd: bool,
    ) -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        let witnesses = folder.path().join("witness");
        fs::create_dir(&witnesses)?;
        let site = Arc::new(Site {
            programs,
            folder: folder.path().to_owned(),
            journal: Arc::new(Journal::open(&witnesses, "test")?),
            ttl,
            late,
            shaken: on_etcd,
        });
        // Those that run commands share a machine: a command that its worker left is known there.
        let workers = [
            (Role::Library, "library-a", 0),
            (Role::Exec, "exec-a", 1),
            (Role::Library, "library-b", 2),
            (Role::Exec, "exec-b", 1),
        ];
        let etcd = match on_etcd {
            true => Some(Etcd::start(&site.folder, 3).await?),
            false => None,
        };
        let client = match &etcd {
            Some(etcd) => Store::open(&etcd.cluster.url(NAMESPACE)).await?,
            None => Store::open(&site.store()).await?,
        };
        let client = Client::new(&client);
        let feed = Feed::follow(&client).await?;
        let store = |machine: usize| match &etcd {
            Some(etcd) => etcd.ways[machine].url(NAMESPACE),
            None => site.store(),
        };
        let mut started = Vec::new();
        for (role, name, machine) in workers {
            let mut worker = Worker::new(&site, role, name, &store(machine));
            worker.launch()?;
            started.push(worker);
        }
        Ok(Self {
            folder: Some(folder),
            site,
            traffic: Traffic::new(&client),
            client,
            workers: started,
            etcd,
            feed,
        })
    }

    /// Keeps the folder, for whoever wants to see what happened; answers where it is.
    fn keep(&mut self) -> String {
        self.workers.clear();
        self.etcd = None;
        match self.folder.take() {
            Some(folder) => folder.keep().display().to_string(),
            None => self.site.folder.display().to_string(),
        }
    }
}

/// Disturbs four workers while they run tasks, lets everything settle, and checks what is left.
///
/// # Errors
///
/// What does not hold, with the histories of the tasks that show it.
pub async fn run(programs: Programs, settings: Settings) -> Result<Summary, BoxError> {
    let on_etcd = settings.etcd.is_some();
    let mut scene = Scene::on(programs, settings.ttl, settings.late, on_etcd).await?;
    let done = play(&mut scene, settings).await;
    match done {
        Ok(summary) => Ok(summary),
        Err(e) => {
            let folder = scene.keep();
            let seed = settings.seed;
            Err(format!("WINDLASS_SEED={seed}, everything is in {folder}\n{e}").into())
        }
    }
}

async fn play(scene: &mut Scene, settings: Settings) -> Result<Summary, BoxError> {
    let began = Moment::now();
    let mut rng = Rng::with_seed(settings.seed);
    let mut plan = Plan::new(rng.u64(..), &scene.site.witnesses());
    let start = Instant::now();
    let until = start + settings.over;
    let traffic = &scene.traffic;
    let (one, two, three, four) = (rng.fork(), rng.fork(), rng.fork(), rng.fork());
    tokio::try_join!(
        traffic.submit(&mut plan, settings.tasks, settings.over.mul_f64(0.8)),
        traffic.command_at_random(one, until),
        traffic.command_nodes(two, until),
        disturb(&mut scene.workers, &scene.feed, three, start, settings),
        shake(
            &mut scene.etcd,
            &scene.feed,
            &scene.site.journal,
            four,
            start,
            settings
        ),
    )?;
    settle(scene, settings.settle).await?;
    for worker in &mut scene.workers {
        worker.shut_down(SHUTDOWN).await?;
    }
    let feed = scene.feed.all(&scene.client, settings.settle).await?;
    let (witnesses, promised) = (scene.site.witnesses(), scene.traffic.promised());
    let mut world = World::load(&scene.client, &witnesses, promised, Some(feed)).await?;
    world.ttl = u64::try_from(settings.ttl.as_micros())?;
    let violations = invariants::check_all(&world);
    if !violations.is_empty() {
        return Err(invariants::report(&world, &violations).into());
    }
    let changes = || world.subjects.values().flat_map(|s| &s.history);
    Ok(Summary {
        tasks: world.subjects.len(),
        commands: world.promised.commands.len(),
        changes: changes().count(),
        lost: changes()
            .filter(|c| matches!(c.what, windlass::store::What::Lost { .. }))
            .count(),
        fenced: (world.witness.iter())
            .filter(|l| matches!(l.said, Said::Fenced { .. }))
            .count(),
        overlaps: invariants::overlaps(&world),
        kills: settings.kills,
        stops: settings.stops,
        took: began.elapsed(),
    })
}

/// Shakes what the workers work on, if it is a cluster.
async fn shake(
    etcd: &mut Option<Etcd>,
    feed: &Feed,
    journal: &Journal,
    mut rng: Rng,
    start: Instant,
    settings: Settings,
) -> Result<(), BoxError> {
    let (Some(etcd), Some(how)) = (etcd, settings.etcd) else {
        return Ok(());
    };
    let spell = Spell {
        start,
        over: settings.over,
        ttl: settings.ttl,
        how,
    };
    let Etcd { cluster, ways } = etcd;
    let (shaken, ()) = tokio::join!(
        cluster::shake(cluster, feed, journal, rng.fork(), spell),
        cluster::part(ways, journal, rng, spell),
    );
    shaken
}

/// What is done to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    Kill,
    Stop,
    ShutDown,
}

/// Kills, stops and restarts workers at random moments.
async fn disturb(
    workers: &mut [Worker],
    feed: &Feed,
    mut rng: Rng,
    start: Instant,
    settings: Settings,
) -> Result<(), BoxError> {
    let blows = [
        (Blow::Kill, settings.kills),
        (Blow::Stop, settings.stops),
        (Blow::ShutDown, settings.shutdowns),
    ];
    let mut moments: Vec<(Duration, Blow)> = blows
        .iter()
        .flat_map(|&(blow, times)| (0..times).map(move |_| blow))
        .map(|blow| (settings.over.mul_f64(rng.f64()), blow))
        .collect();
    moments.sort();
    let mut shown = false;
    for (moment, blow) in moments {
        while Instant::now() < start + moment {
            for worker in workers.iter_mut() {
                worker.supervise()?;
            }
            let next = Instant::now() + Duration::from_millis(200);
            sleep_until(next.min(start + moment)).await;
        }
        let mut at = rng.usize(0..workers.len());
        let shows = blow == Blow::Stop && !shown;
        if shows {
            // One of the first stops has to show that a late write is refused.
            at = rng.usize(0..workers.len() / 2) * 2;
        }
        let worker = &mut workers[at];
        match blow {
            Blow::Kill => {
                worker.kill().await?;
                worker.launch()?;
            }
            Blow::Stop => {
                let how = Standstill {
                    lasts: settings.ttl.mul_f64(1.2 + rng.f64() * 1.3),
                    // Some never wake.
                    wakes: shows || settings.kills == 0 || rng.bool(),
                };
                shown |= zombie::stand_still(worker, feed, how).await?;
            }
            Blow::ShutDown => {
                worker.shut_down(SHUTDOWN).await?;
                worker.launch()?;
            }
        }
    }
    Ok(())
}

/// Why a task has not settled.
pub fn unsettled(record: &TaskRecord) -> Option<&'static str> {
    let stays = record.task.kind.as_str() == "far";
    let Ok(state) = &record.state else {
        return Some("cannot be read");
    };
    match state.code() {
        _ if record.commands > 0 => Some("has commands that wait"),
        code if code.is_terminal() => None,
        Code::Sleeping | Code::Paused if stays && record.node.is_some() => Some("is held"),
        Code::Paused if stays => None,
        Code::Sleeping if stays => {
            let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
            state.due().is_none_or(|due| due < soon).then_some("sleeps")
        }
        Code::Paused => Some("is paused"),
        Code::Sleeping => Some("sleeps"),
        _ => Some("runs"),
    }
}

/// Resumes what is paused and unfreezes what is frozen, until everything has ended or is parked.
async fn settle(scene: &mut Scene, within: Duration) -> Result<(), BoxError> {
    let deadline = Instant::now() + within;
    loop {
        for worker in &mut scene.workers {
            worker.supervise()?;
        }
        for node in scene.client.nodes().await.unwrap_or_default() {
            if node.status.frozen || node.status.draining {
                let unfreeze = NodeCommand::Unfreeze;
                // It may be gone by now; the next round sees.
                let _ = scene.client.command_node(&node.spec.name, unfreeze).await;
            }
        }
        let left = live(&scene.client).await?;
        if left.is_empty() {
            return Ok(());
        }
        for record in &left {
            let paused = record
                .state
                .as_ref()
                .is_ok_and(|s| s.code() == Code::Paused);
            if paused && record.commands == 0 && record.task.kind.as_str() != "far" {
                let version = record.state.as_ref().map_or(0, |s| s.version);
                let id = format!("settle-{}-{version}", record.task.id);
                let traffic = &scene.traffic;
                traffic.command(&record.task.id, &id, Command::Run).await?;
            }
        }
        if Instant::now() > deadline {
            return Err(hanging(&scene.client, left, within).await?.into());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn live(client: &Client) -> Result<Vec<TaskRecord>, BoxError> {
    let mut left = Vec::new();
    let filter = Filter {
        states: vec![Code::Runnable, Code::Fault, Code::Sleeping, Code::Paused],
        ..Filter::default()
    };
    // Each page of a store on etcd reads all there is.
    let mut page = Page {
        limit: 10_000,
        ..Page::default()
    };
    loop {
        let records = match client.list(&filter, page).await {
            Ok(records) => records,
            Err(e) if e.is_retryable() => continue,
            Err(e) => return Err(e.into()),
        };
        let Some(last) = records.last() else {
            return Ok(left);
        };
        page.after = last.order;
        left.extend(records.into_iter().filter(|r| unsettled(r).is_some()));
    }
}

async fn hanging(
    client: &Client,
    left: Vec<TaskRecord>,
    within: Duration,
) -> Result<String, BoxError> {
    let count = left.len();
    let mut text = format!("{count} tasks have not settled within {within:?}:\n");
    for record in left.iter().take(200) {
        let why = unsettled(record).unwrap_or("has settled meanwhile");
        let _ = writeln!(text, "  {} {why}", record.task.id);
    }
    let _ = writeln!(text, "nodes: {:#?}", client.nodes().await?);
    for record in left.into_iter().take(10) {
        let subject = world::load(client, record).await?;
        let _ = writeln!(text, "{}", subject.describe());
    }
    Ok(text)
}
