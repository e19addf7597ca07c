//! A build of another commit together with the present one, on one store: which versions may run side
//! by side (`docs/operate/running.md`).

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use windlass_etcd_cluster::{Cluster, cluster::Setup};

use crate::{cargo, release, root, run, tools};

/// The longest that anything may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How many tasks both versions share.
const TASKS: usize = 20;

pub(crate) fn side_by_side(args: &[String]) -> Result<(), String> {
    let root = root();
    let commit =
        match args {
            [] => release::last_release(&root)?,
            [commit] => Some(commit.clone()),
            _ => return Err(
                "name one commit, or none for the last release: cargo xtask side-by-side [COMMIT]"
                    .to_owned(),
            ),
        };
    let Some(commit) = commit else {
        eprintln!(
            "==> side by side: NOT REHEARSED, there is no release yet (no tag vN.N.N before this commit); name a commit to \
             compare with: cargo xtask side-by-side COMMIT"
        );
        return Ok(());
    };
    let commit = commit.as_str();
    let protoc = tools::protoc(&root)?;
    let folder = root.join("target/side-by-side");
    let sources = folder.join(commit);
    unpack(&root, commit, &sources)?;
    let target = folder.join("build");
    let build = |what: &str, command: &mut Command| {
        let command = command.args(["build", "--package", "windlass-cli", "--all-features"]);
        run(what, command.env("PROTOC", &protoc))
    };
    build(
        &format!("building {commit}"),
        cargo()
            .current_dir(&sources)
            .env("CARGO_TARGET_DIR", &target),
    )?;
    build("building the present version", &mut cargo())?;
    let old = Version(target.join("debug/windlass"));
    let new = Version(root.join("target/debug/windlass"));
    let scratch = folder.join("scratch");
    // Of an earlier run, which may not be there.
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(|e| format!("could not create a folder: {e}"))?;
    sqlite(&old, &new, &scratch)?;
    etcd(&old, &new, &root, &scratch)
}

/// Puts the files of a commit into a folder.
fn unpack(root: &Path, commit: &str, into: &Path) -> Result<(), String> {
    fs::create_dir_all(into).map_err(|e| format!("could not create a folder: {e}"))?;
    let mut archive = Command::new("git");
    archive.current_dir(root).args(["archive", commit]);
    let mut archive = archive
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("git: could not be started: {e}"))?;
    let mut tar = Command::new("tar");
    tar.arg("-x").arg("-C").arg(into);
    if let Some(files) = archive.stdout.take() {
        tar.stdin(files);
    }
    run(&format!("unpacking {commit}"), &mut tar)?;
    let archived = archive.wait().map_err(|e| format!("git archive: {e}"))?;
    archived.success().then_some(()).ok_or_else(|| {
        format!("git archive {commit}: {archived}; name a commit of this repository")
    })
}

/// The command line of one version.
struct Version(PathBuf);

/// A worker. It is killed when this is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Worker {
    /// Stops it as an operator does, and waits for its end.
    fn stop(mut self) -> Result<(), String> {
        let pid = self.0.id().to_string();
        run("stopping a worker", Command::new("kill").arg(pid))?;
        self.0.wait().map(drop).map_err(|e| e.to_string())
    }
}

impl Version {
    fn command(&self, store: &str, args: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(["--store", store]).args(args);
        command
    }

    /// Runs a command; `Err` holds its output when it fails.
    fn runs(&self, store: &str, args: &[&str]) -> Result<String, String> {
        let ran = self
            .command(store, args)
            .output()
            .map_err(|e| e.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match ran.status.success() {
            true => Ok(text(&ran.stdout)),
            false => Err(format!("{}: {}", ran.status, text(&ran.stderr))),
        }
    }

    fn submit(&self, store: &str, id: &str) -> Result<(), String> {
        let props = r#"{"command":"true"}"#;
        let args = ["submit", "exec", "--id", id, "--props", props];
        self.runs(store, &args).map(drop)
    }

    fn worker(&self, store: &str) -> Result<Worker, String> {
        let mut worker = self.command(store, &["worker"]);
        worker.stdout(Stdio::null()).stderr(Stdio::null());
        worker.spawn().map(Worker).map_err(|e| e.to_string())
    }

    /// Waits until this many tasks have completed.
    fn completes(&self, store: &str, tasks: usize) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let listed = self.runs(store, &["list", "--state", "completed", "-o", "json"])?;
            let completed = listed.lines().count();
            if completed == tasks {
                return Ok(());
            }
            if started.elapsed() > LIMIT {
                return Err(format!(
                    "{completed} of {tasks} tasks have completed after {LIMIT:?}"
                ));
            }
            sleep(Duration::from_millis(100));
        }
    }
}

/// Refuses a command that succeeds, or fails for another reason.
fn refused(what: &str, ran: Result<String, String>, reason: &str) -> Result<(), String> {
    match ran {
        Err(text) if text.contains(reason) => {
            eprintln!("    {what}: refused, as it must be: {}", text.trim());
            Ok(())
        }
        Err(text) => Err(format!("{what}: refused without '{reason}': {text}")),
        Ok(text) => Err(format!("{what}: was not refused: {text}")),
    }
}

fn sqlite(old: &Version, new: &Version, scratch: &Path) -> Result<(), String> {
    eprintln!("==> SQLite");
    let store = format!("sqlite:{}", scratch.join("jobs.db").display());
    old.submit(&store, "first")?;
    let worker = old.worker(&store)?;
    old.completes(&store, 1)?;
    let listed = new.runs(&store, &["list"]);
    if listed.is_ok() {
        return both(old, new, &store);
    }
    let reason = "it was written by a ";
    refused("a new command that reads", listed, reason)?;
    refused("a new worker", new.runs(&store, &["worker"]), reason)?;
    old.submit(&store, "second")?;
    old.completes(&store, 2)?;
    worker.stop()?;
    eprintln!("==> SQLite: the new version refused the file, and the old one goes on with it");
    Ok(())
}

fn etcd(old: &Version, new: &Version, root: &Path, scratch: &Path) -> Result<(), String> {
    eprintln!("==> etcd");
    let servers = tools::etcds(root)?;
    let setup = Setup {
        program: servers.first().ok_or("no etcd was found")?.clone(),
        ..Setup::of(1)
    };
    let etcd = Cluster::start(setup).map_err(|e| e.to_string())?;
    let at = etcd.endpoint(0);
    let at = at.trim_start_matches("http://");
    // A namespace that the old version has used: a new one is for new versions alone.
    let store = format!("etcd://{at}/side-by-side");
    used_by(old, &store)?;
    let listed = new.runs(&store, &["list"]);
    if listed.is_err() {
        let reason = "version of windlass wrote it";
        return refused("a new command in an old namespace", listed, reason);
    }
    both(old, new, &store)?;
    let store = format!("etcd://{at}/newer");
    used_by(old, &store)?;
    newer(old, new, &store, scratch)?;
    let store = format!("etcd://{at}/new");
    new.submit(&store, "first")?;
    let listed = old.runs(&store, &["list"]);
    if listed.is_ok() {
        eprintln!("==> etcd: the old version works in a namespace that the new one has made");
        return both(old, new, &store);
    }
    let reason = "newer";
    refused("an old command in a new namespace", listed, reason)?;
    let worker = old.runs(&store, &["worker"]);
    refused("an old worker in a new namespace", worker, reason)
}

/// Makes a namespace one that a version has used: one of its tasks has completed.
fn used_by(version: &Version, store: &str) -> Result<(), String> {
    version.submit(store, "before")?;
    let worker = version.worker(store)?;
    version.completes(store, 1)?;
    worker.stop()
}

/// The new version submits tasks that the old one may not know, while workers of both run: tasks that
/// wait for others, a transaction, a schedule.
fn newer(old: &Version, new: &Version, store: &str, scratch: &Path) -> Result<(), String> {
    let workers = (old.worker(store)?, new.worker(store)?);
    let mark = scratch.join("held").display().to_string();
    let shell = |text: String| format!(r#"{{"op":"submit","kind":"exec","retry":"never",{text}}}"#);
    let lines: String = (0..TASKS)
        .map(|n| {
            let held =
                format!(r#""id":"held-{n}","props":{{"shell":"sleep 1; touch {mark}-{n}"}}"#);
            let waits = format!(
                r#""id":"waits-{n}","after":["held-{n}"],"props":{{"shell":"test -e {mark}-{n}"}}"#
            );
            format!("{}\n{}\n", shell(held), shell(waits))
        })
        .collect();
    let file = scratch.join("lines");
    fs::write(&file, lines).map_err(|e| format!("could not write {}: {e}", file.display()))?;
    new.runs(store, &["apply", &file.display().to_string()])?;
    let create = [
        "schedule", "create", "tick", "--every", "1s", "--count", "2",
    ];
    new.runs(store, &[&create[..], &["--", "true"]].concat())?;
    // The one that was there, held and waiting tasks, the schedule and its two runs.
    new.completes(store, 1 + 2 * TASKS + 3)?;
    drop(workers);
    let doctor = new.runs(store, &["doctor"])?;
    eprintln!(
        "{doctor}==> no task ran before those that it waits for, and the schedule ran, beside a worker of the old version"
    );
    Ok(())
}

/// Both versions work on one store; then the old worker stops, and the new one continues.
fn both(old: &Version, new: &Version, store: &str) -> Result<(), String> {
    let (of_old, of_new) = (old.worker(store)?, new.worker(store)?);
    let before = new.runs(store, &["list", "--state", "completed", "-o", "json"])?;
    let before = before.lines().count();
    for n in 0..TASKS {
        let version = if n % 2 == 0 { old } else { new };
        version.submit(store, &format!("shared-{n}"))?;
    }
    new.completes(store, before + TASKS)?;
    old.completes(store, before + TASKS)?;
    of_old.stop()?;
    old.submit(store, "last")?;
    new.completes(store, before + TASKS + 1)?;
    of_new.stop()?;
    let doctor = new.runs(store, &["doctor"])?;
    eprintln!("{doctor}==> both versions worked on one store; every task has completed");
    Ok(())
}
