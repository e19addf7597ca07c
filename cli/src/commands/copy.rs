//! `windlass copy`: copies all tasks of one store into another.

use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use tokio::time::sleep;
use windlass::{
    TaskId,
    store::{
        Error, Store,
        copy::{Copier, Problem, Report},
        sqlite::{Location, SqliteStore},
    },
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    opening,
    output::Output,
    parse,
    select::count,
    text::counted,
    view::text,
};

/// The two stores, and the options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
No node may work on either store: stop the nodes of the source, or drain them (node drain NAME), and
start those of the target afterwards. An interrupted copy continues when started again. A complete copy leaves a
mark in the source, which then accepts no tasks, commands and nodes: the option --use-copied removes the mark. With
--backup the source stays in use and is not changed.

Examples:
  windlass copy --from sqlite:jobs.db --to etcd://10.0.0.1:2379/jobs --dry-run
  windlass copy --from sqlite:jobs.db --to etcd://10.0.0.1:2379/jobs
  windlass copy --from etcd://10.0.0.1:2379/jobs --to sqlite:backup.db --backup --wait 1m")]
pub(crate) struct Args {
    /// The store to copy
    #[arg(long, value_name = "URL")]
    from: String,

    /// The store to copy into
    #[arg(long, value_name = "URL")]
    to: String,

    /// Replace a task of the target by a different one of the source with the same id
    #[arg(long)]
    replace: bool,

    /// Copy also where tasks that cannot be read are awaited by others, which then stop waiting in the target: with
    /// --after they run, with --after-ok they fail. The exit code is 1, and the source keeps no mark
    #[arg(long)]
    accept_missing: bool,

    /// Keep the source in use: leave no mark in it
    #[arg(long)]
    backup: bool,

    /// Show what would be copied, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Wait up to this long for the nodes of the source to release their tasks (30s, 5m, …)
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    wait: Option<Duration>,
}

/// How many tasks that were not copied are listed by name.
const NAMED: usize = 20;

/// Copies.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    if args.from == args.to || is_same_file(&args.from, &args.to) {
        return Err(to_itself(&args.to));
    }
    if args.to == "memory:" {
        return Err(Failure::Usage(
            "to: 'memory:' ends with this command, and the copy with it; name a file or a cluster"
                .into(),
        ));
    }
    if let Some(path) = absent_file(&args.from).map_err(|e| e.about("from"))? {
        return Err(Failure::Store(format!(
            "from: there is no file '{}'; check the name",
            path.display()
        )));
    }
    let from = opening::open(&args.from).await;
    let from = from.map_err(|e| e.about("from"))?;
    if let Some(mark) = from.transfer()?.copied().await?
        && !(args.backup || global.use_copied || mark.to == place(&args.to))
    {
        return Err(Failure::No(format!(
            "from: '{}' was {mark}, and its tasks run there; copy that store, or give --backup for a copy that no \
             node uses",
            windlass::store::without_password(&args.from)
        )));
    }
    let outside = from.transfer()?.outside(NAMED as u32).await?;
    if from.registry().counts().await?.is_empty() && outside.is_empty() {
        return Err(Failure::No(format!(
            "from: there are no tasks in '{}'; check the name",
            args.from
        )));
    }
    // Problems of the source are reported before a target is created.
    let nowhere = Store::open("memory:").await?;
    until_free(&Copier::new(&from, &nowhere), args.wait).await?;
    let absent = absent_file(&args.to).map_err(|e| e.about("to"))?;
    let to = match args.dry_run && absent.is_some() {
        // Opening the file would create it.
        true => nowhere,
        false => {
            let to = opening::open(&args.to).await.map_err(|e| e.about("to"))?;
            global.past_mark(to)
        }
    };
    if is_same_cluster(&args, &from, &to).await? {
        return Err(to_itself(&args.to));
    }
    if let Some(mark) = to
        .transfer()?
        .copied()
        .await?
        .filter(|_| !global.use_copied)
    {
        return Err(Failure::Store(format!(
            "to: '{}' was {mark}, and takes no tasks since; name that store, or give --use-copied, which removes the \
             mark",
            windlass::store::without_password(&args.to)
        )));
    }
    let transfer = Copier::new(&from, &to)
        .replace(args.replace)
        .accept_missing(args.accept_missing)
        .dry_run(args.dry_run);
    until_free(&transfer, args.wait).await?;
    let out = global.out();
    let mut bar: Option<ProgressBar> = None;
    let mut done = 0;
    let mut report = transfer
        .run(|now| {
            done = now.done;
            let bar = bar.get_or_insert_with(|| out.progress(now.tasks, "copy"));
            bar.set_position(now.done);
        })
        .await
        .map_err(|error| not_copied(error, if args.dry_run { 0 } else { done }))?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if !args.dry_run {
        let bar = out.progress(report.tasks, "compare");
        transfer
            .verify(&mut report, |now| bar.set_position(now.done))
            .await?;
        bar.finish_and_clear();
        if !args.backup {
            transfer.finish(&mut report, &place(&args.to)).await?;
            // The source has the mark now. If every task existed already, no write has removed the mark of the target.
            if global.use_copied && report.is_whole() {
                to.transfer()?.set_copied(None).await?;
            }
        }
    }
    show(&out, &report, &args)?;
    if args.accept_missing && !args.dry_run && !args.backup && !report.is_whole() {
        out.note(
            "note: the source has no mark of the copy, and still runs its tasks: start no node there, or both stores run them",
        );
    }
    let done = if args.dry_run {
        report.left.is_empty() && report.outside.is_empty()
    } else {
        report.is_whole()
    };
    Ok(if done { Exit::Ok } else { Exit::No })
}

/// The failure of a copy that would let tasks run early, or that ended after so many tasks.
fn not_copied(error: Error, done: u64) -> Failure {
    match error {
        Error::Invalid(missing) if missing.field() == "from" => {
            Failure::No(format!("{missing} (--accept-missing); nothing was copied"))
        }
        error if done > 0 => {
            let tasks = counted(done, "task");
            let text = Failure::from(error).to_string();
            Failure::Store(format!(
                "{text}; at least {tasks} of the source are in the target: copy again, it goes on from there"
            ))
        }
        error => error.into(),
    }
}

/// Returns a URL that names the same store in any folder, without a password.
fn place(url: &str) -> String {
    let file = Location::of(url).and_then(|file| std::path::absolute(file.path()).ok());
    file.map_or_else(
        || windlass::store::without_password(url),
        |path| format!("sqlite:{}", path.display()),
    )
}

fn to_itself(to: &str) -> Failure {
    Failure::Usage(format!(
        "to: '{}' is the store that is to be copied; name another one",
        windlass::store::without_password(to)
    ))
}

/// Returns whether two URLs name one file, by any path.
fn is_same_file(from: &str, to: &str) -> bool {
    let file = |url: &str| {
        let file = std::fs::metadata(Location::of(url)?.path()).ok()?;
        Some((file.dev(), file.ino()))
    };
    file(from).is_some_and(|from| file(to) == Some(from))
}

/// Returns whether two URLs name one namespace of a cluster. Copied files also have the same identity.
async fn is_same_cluster(args: &Args, from: &Store, to: &Store) -> Result<bool, Failure> {
    let is_etcd = |url: &str| url.starts_with("etcd:") || url.starts_with("etcds:");
    if !is_etcd(&args.from) || !is_etcd(&args.to) {
        return Ok(false);
    }
    Ok(from.registry().identity().await? == to.registry().identity().await?)
}

/// Returns the path of the file in the URL of a store, if that file does not exist.
fn absent_file(url: &str) -> Result<Option<&Path>, Failure> {
    let path = Location::of(url).map(|file| file.path());
    Ok(match path {
        Some(path) if !SqliteStore::exists(path)? => Some(path),
        _ => None,
    })
}

/// Waits until no node has a claim in either store.
async fn until_free(transfer: &Copier<'_>, wait: Option<Duration>) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        match transfer.check().await {
            Ok(()) => return Ok(()),
            Err(Error::Invalid(busy)) if wait.is_none() => {
                let hint = match busy.field() {
                    "from" => "; --wait waits until they have given their tasks back",
                    _ => "",
                };
                return Err(Failure::No(format!("{busy}{hint}")));
            }
            Err(Error::Invalid(busy)) if wait.is_some_and(|w| started.elapsed() >= w) => {
                return Err(Failure::Timeout(busy.to_string()));
            }
            Err(Error::Invalid(_)) => sleep(Duration::from_millis(200)).await,
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn name(out: &Output, left: &[Problem], what: &str) {
    for one in left.iter().take(NAMED) {
        out.complain(format!("{}: {}", one.id, one.reason));
    }
    if left.len() > NAMED {
        out.complain(format!("and {} more {what}", left.len() - NAMED));
    }
}

/// Prints the numbers of a report. `done` is the verb for the tasks, `sides` are the headers of the two columns.
fn totals(
    out: &Output,
    report: &Report,
    sides: [&str; 2],
    done: &str,
    is_compared: bool,
) -> Result<(), Failure> {
    name(out, &report.wrong, "that are not the same");
    for one in report.outside.iter().take(NAMED) {
        let why = one.refused.as_deref().unwrap_or("it waits");
        out.complain(format!("{}: {why}", one.what));
    }
    if out.is_json() {
        return out.json(report);
    }
    let rows = report.counts.iter().map(|pair| {
        vec![
            text(&pair.kind),
            text(pair.state),
            text(pair.from),
            text(pair.to),
        ]
    });
    let header = ["KIND", "STATE", sides[0], sides[1]];
    out.narrow_table(&header, &[], rows.collect())?;
    let tasks = count(usize::try_from(report.tasks).unwrap_or(usize::MAX));
    let mut line = format!("{tasks}: {} {done}", report.copied);
    for (n, what) in [
        (report.replaced, "in the place of another"),
        (report.same, "there already"),
        (report.left.len() as u64, "left out"),
    ] {
        if n > 0 {
            line += &format!(", {n} {what}");
        }
    }
    if is_compared {
        line += &format!("; {} compared and the same", report.verified);
        if !report.wrong.is_empty() {
            line += &format!(", {} not", report.wrong.len());
        }
    }
    out.line(line)?;
    if report.history_kept < report.history {
        out.note(format!(
            "of {} changes of the history the target keeps {} (a store on etcd keeps the last 64 of a task)",
            report.history, report.history_kept
        ));
    }
    Ok(())
}

/// Prints the report of an import.
pub(super) fn show_import(out: &Output, report: &Report) -> Result<(), Failure> {
    name(out, &report.left, "that were not imported");
    totals(out, report, ["FILE", "STORE"], "imported", true)?;
    if report.copied == 0 && report.verified == 0 && !report.left.is_empty() {
        out.note("nothing was written: import into an empty store");
    }
    Ok(())
}

fn show(out: &Output, report: &Report, args: &Args) -> Result<(), Failure> {
    let dry_run = args.dry_run;
    name(out, &report.left, "that were not copied");
    let done = if dry_run { "to copy" } else { "copied" };
    totals(out, report, ["SOURCE", "TARGET"], done, !dry_run)?;
    if out.is_json() {
        return Ok(());
    }
    let tasks = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX));
    if !report.only_there.is_empty() {
        let first = report.only_there.iter().take(NAMED);
        let first: Vec<&str> = first.map(TaskId::as_str).collect();
        let more = report.only_there.len() - first.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        out.note(format!(
            "the target has {} that the source does not have: {}{more}; delete those that were copied before and that the \
             source has deleted since, or they run in the target",
            tasks(report.only_there.len() as u64),
            first.join(", ")
        ));
    }
    if !report.outside.is_empty() {
        out.note(format!(
            "{} of the source that are in no task were not copied; correct or delete refused rows (windlass doctor), \
             then run the copy again, which takes them",
            counted(report.outside.len() as u64, "operation")
        ));
    }
    if !dry_run && report.is_whole() && !args.backup {
        out.note(format!(
            "'{}' accepts no tasks, commands and nodes from now on; the option --use-copied removes this mark",
            windlass::store::without_password(&args.from)
        ));
    }
    if dry_run {
        out.note("nothing was changed (dry run)");
    }
    if !dry_run && !report.left.is_empty() {
        out.note("tasks that were left out stay as they are in both stores; --replace overwrites the target's task with the source's, which repeats what the target's task has done since; retry or delete a task that cannot be read");
    }
    Ok(())
}
