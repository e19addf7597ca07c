//! `windlass worker`: a node that runs until it is stopped.

use std::time::Duration;

use futures::StreamExt;
use tracing::info;
use windlass::{
    Client, Kind, KindConfig, NodeName, Retry, Runner,
    runner::{self, StartError},
    statemachine::wire::read_retry,
    store::Filter,
};

use super::until_idle::{LIVE, idle};
use crate::{
    balancing::{self, Balance},
    exec::{
        self, Exec, Folders,
        inherited::{FIRST, Inherited},
    },
    exit::{Exit, Failure},
    global::Global,
    logs::{self, Limit, Logs},
    metrics::Exporter,
    parse, serving,
    waiting::{PATIENCE, patiently},
};

const EXAMPLES: &str = "\
Examples:
  windlass worker                          runs tasks until it is stopped
  windlass worker --slots 4 --until-idle   runs the present tasks, then ends
  windlass worker --name a --select site=berlin
  windlass worker --balancer fair,threshold=150%
  windlass worker --exit-after-store-errors 10

The commands of the tasks run in process groups of their own, with WINDLASS_TASK_ID,
WINDLASS_ATTEMPT, WINDLASS_INCARNATION, WINDLASS_FENCE and WINDLASS_STATE_DIR in their
environment. The last is a folder for the command's own progress: it is kept from attempt to
attempt, next to the store (jobs.db.tasks/ for sqlite:jobs.db), until the task has completed.

ctrl-c, SIGTERM, SIGHUP or SIGQUIT releases every task: its command gets SIGTERM, and SIGKILL after
the grace. A second signal kills the commands at once.

When the file of the store is moved, deleted or replaced, or its etcd is restored to an earlier
state, the worker stops its commands and ends with exit code 4. It also ends with code 4 after the
number of failures of its store that --exit-after-store-errors sets.

On Linux the worker runs below a supervisor, a second windlass process: send signals to that one. It
passes them on, and ends the commands if the worker dies.";

/// The options of `worker`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) node: NodeArgs,

    /// Set the node's name; if a live node has it, wait until that node's lease ends
    /// [default: a unique name]
    #[arg(long)]
    name: Option<NodeName>,

    /// Run at most N commands at once [default: one per core]
    #[arg(short = 'j', long, value_name = "N", default_value_t = default_slots(), hide_default_value = true,
        value_parser = parse::slots)]
    slots: u32,

    /// Release a task that sleeps longer than this until it wakes
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "10s", value_parser = parse::duration)]
    park_after: Duration,

    /// Keep finished tasks for this long, or 'forever'
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "7d", value_parser = retention)]
    retention: Retention,

    /// Set what follows a failed attempt of a task without its own policy: a number of attempts, 'exponential'
    /// (8 attempts; random waits of up to 1s, 2s, 4s … 5m, as for a number; of up to a week for '20,cap=7d'), 'strikes' (8 failures within 4h
    /// fail the task; 10m between attempts), 'never', 'abandoned' or JSON. A command that is stopped with its
    /// worker has not failed: it starts again under every policy [default: exponential]
    #[arg(long, value_name = "POLICY", default_value = "exponential", hide_default_value = true,
        value_parser = read_retry)]
    retry: Retry,

    /// Claim only tasks with this label; with several labels, only tasks that have all of them. Schedules are run
    /// whatever their labels are
    #[arg(long, value_name = "LABEL=VALUE", value_parser = parse::label)]
    select: Vec<(String, String)>,

    /// Also run the lines of every `windlass run` on this store, with the environment and the folders of this worker. Without
    /// it only runs of the same batch take them
    #[arg(long)]
    take_runs: bool,

    /// End with exit code 4 after N failed attempts in a row to join the store or to renew the lease; 0 never ends it. For use with a supervisor that starts the worker again, here or elsewhere
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse::from_zero::<u32>)]
    exit_after_store_errors: u32,

    /// Also serve the store by HTTP on this address of the machine itself, as 'windlass serve --listen' does; port 0 is any
    /// free one
    #[arg(long, value_name = "ADDRESS")]
    serve: Vec<std::net::SocketAddr>,

    /// End when no selected command (task of the kind exec; with --take-runs also exec/run) runs, is due or sleeps.
    /// Schedules do not count, because their times may never end
    #[arg(long)]
    until_idle: bool,
}

/// The options of every command that runs a node.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeArgs {
    /// Let other nodes take over this process's tasks after this long without a renewal of its
    /// lease
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "15s", value_parser = parse::lease_ttl)]
    pub(crate) lease_ttl: Duration,

    /// Send SIGKILL to a command at the latest this long after SIGTERM; 0 for no limit of the worker. Each task also has a
    /// grace of its own ('grace' in its props, 10s by default), and the shorter one applies
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "30s", value_parser = parse::grace)]
    pub(crate) grace: Duration,

    #[arg(long, value_name = "BALANCER", default_value = "greedy", value_parser = balancing::read, help = balancing::HELP)]
    pub(crate) balancer: Balance,

    /// Keep at most this much of each attempt's output in files on this machine, for `windlass logs`;
    /// the oldest is dropped. 0 keeps none [default: 64MiB]
    #[arg(long, value_name = "BYTES", value_parser = log_limit)]
    log_limit: Option<u64>,

    /// Let every command have the open file N of this process (3 or more). Without it a command gets its standard
    /// input, output and error, and no other file that the caller has left open
    #[arg(long, value_name = "N", value_parser = descriptor)]
    pub(crate) inherit_fd: Vec<i32>,
}

/// The smallest useful value.
const LEAST_LOG: u64 = 64 << 10;

fn log_limit(text: &str) -> Result<u64, String> {
    match parse::bytes(text)? {
        0 => Ok(0),
        LEAST_LOG.. => Ok(parse::bytes(text)?),
        _ => Err("a log takes at least 64KiB; 0 writes none".to_owned()),
    }
}

fn descriptor(text: &str) -> Result<i32, String> {
    match text.parse::<i32>() {
        Ok(number @ FIRST..) => Ok(number),
        Ok(0..FIRST) => Err(
            "0, 1 and 2 are a command's own input, output and error; give a number from 3"
                .to_owned(),
        ),
        _ => Err("is not the number of an open file; give one from 3".to_owned()),
    }
}

#[derive(Debug, Clone, Copy)]
struct Retention(Option<Duration>);

fn retention(text: &str) -> Result<Retention, String> {
    match text {
        "forever" => Ok(Retention(None)),
        text => match parse::duration(text) {
            Ok(keep) => Ok(Retention(Some(keep))),
            Err(e) => Err(format!("{e}, or 'forever'")),
        },
    }
}

/// As many commands at once as there are cores.
pub(crate) fn default_slots() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

impl NodeArgs {
    /// Checks the numbers of the files that commands get.
    ///
    /// # Errors
    ///
    /// A number that the caller has not left open.
    pub(crate) fn check_files(&self, inherited: &Inherited) -> Result<(), Failure> {
        let mut numbers = self.inherit_fd.iter();
        match numbers.find(|number| !inherited.has(**number)) {
            None => Ok(()),
            Some(number) => Err(Failure::Usage(format!(
                "--inherit-fd {number}: the caller has no file open at this number; open it before the start \
                 (`windlass … --inherit-fd {number} {number}>FILE`), or leave the option out"
            ))),
        }
    }

    /// Returns the limit of each log that the options name.
    pub(crate) fn log_limit(&self) -> Option<Limit> {
        self.log_limit.map(|bytes| match bytes {
            0 => Limit::None,
            bytes => Limit::Bytes(bytes),
        })
    }

    /// Builds a node that runs commands.
    pub(crate) fn builder(
        &self,
        global: &Global,
        client: &Client,
        folders: &Folders,
        logs: Logs,
        policy: Retry,
        kinds: &[&str],
    ) -> runner::Builder {
        let store = client.store();
        let config = KindConfig::default().stop_grace(self.grace).retry(policy);
        let mut exec = Exec::new(folders.clone(), store.registry().limits().max_bytes)
            .logs(logs)
            .longest_grace(self.grace)
            .supervised_by(global.link.supervisor());
        // An open store has a URL.
        if let Ok(url) = global.store_url() {
            exec = exec.store(&url);
        }
        let builder = Runner::builder(store)
            .lease_ttl(self.lease_ttl)
            .wait_for_name(self.lease_ttl + Duration::from_secs(2))
            .wait_for_store(STORE_WAIT);
        kinds.iter().fold(builder, |builder, kind| {
            builder.handler_with(*kind, config.clone(), exec.clone())
        })
    }
}

/// How long a start waits while a backup locks the file, or while a cluster has no leader.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(60);

/// Returns the folders of the store's tasks, after the commands that an earlier worker left running
/// have ended.
///
/// # Errors
///
/// When there is no place for the folders, or the store does not report its identity.
pub(crate) async fn folders(
    global: &Global,
    client: &Client,
    grace: Duration,
) -> Result<Folders, Failure> {
    let registry = client.store().registry();
    let identity = patiently(PATIENCE, || registry.identity()).await?;
    let mut folders = Folders::of_store(&global.store_url()?, &identity, client).map_err(|e| {
        Failure::Store(format!(
            "could not make the folder for the tasks' own files: {e}"
        ))
    })?;
    folders.end_orphans(grace).await;
    folders.sweep(grace);
    folders.keep_orphans_ended(grace);
    Ok(folders)
}

/// Runs the worker.
///
/// # Errors
///
/// The reason why the node could not start.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    serving::check_beside(&args.serve)?;
    let client = global.client_within(STORE_WAIT).await?;
    // Before the node starts, so that it records.
    let exporter = match args.serve.is_empty() {
        true => None,
        false => Some(Exporter::install()?),
    };
    let folders = folders(global, &client, args.node.grace).await?;
    let limit = args.node.log_limit().unwrap_or(Limit::Bytes(logs::LIMIT));
    let logs = folders.logs().clone().limit(limit);
    let policy = args.retry;
    let kinds: &[&str] = match args.take_runs {
        true => &exec::KINDS,
        false => &[exec::KIND],
    };
    let mut builder = args
        .node
        .builder(global, &client, &folders, logs.clone(), policy, kinds)
        .slots(args.slots)
        .balancer(args.node.balancer.balancer.clone())
        .handler_with(
            windlass_server::bulk::KIND,
            windlass_server::bulk::Handler::config(),
            windlass_server::bulk::Handler::new(client.store()),
        )
        .exit_after_store_errors(args.exit_after_store_errors)
        .park_after(args.park_after)
        .retention(args.retention.0);
    if let Some(name) = args.name {
        builder = builder.node(name.as_str());
    }
    for (name, value) in &args.select {
        builder = builder.select(name, value);
    }
    let mut stops = global.link.stops().map_err(signals)?;
    // The start may wait for the name of an earlier worker.
    let runner = tokio::select! {
        started = builder.start() => started.map_err(|e| not_started(e, "--slots"))?,
        Some(signal) = stops.next() => {
            info!(signal, "stopped");
            return Ok(Exit::Ok);
        }
    };
    let serving = match &exporter {
        Some(exporter) => Some(serving::beside(global, &client, (&args.serve, exporter)).await?),
        None => None,
    };
    let store = windlass::store::without_password(&global.store_url()?);
    info!(node = %runner.node(), slots = args.slots, store, "working");
    let selected = Filter::new()
        .states(LIVE)
        .labels((args.select.into_iter()).map(|(name, value)| (name, Some(value))));
    let kinds: Result<Vec<Kind>, _> = kinds.iter().map(|kind| kind.parse()).collect();
    let kinds = kinds?.into_iter();
    let filters: Vec<Filter> = kinds.map(|kind| selected.clone().kind(kind)).collect();
    let mut failed = None;
    let done = async {
        let idle = async {
            match args.until_idle {
                true => idle(&client, &filters).await.err(),
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            error = idle => failed = error,
            () = logs.keep_swept(&client, logs::SWEEP_EVERY) => {}
        }
    };
    global.link.report(&runner);
    let signal = runner.run_until_stopped(done, stops).await?;
    if let Some(serving) = serving {
        serving::end(serving).await;
    }
    folders.settle().await;
    info!(signal, "stopped");
    match failed {
        Some(e) => Err(e.into()),
        None => Ok(Exit::Ok),
    }
}

/// Returns the failure of a node that did not start. `slots` is the flag that sets how many tasks
/// run at once.
pub(crate) fn not_started(error: StartError, slots: &str) -> Failure {
    let StartError::Invalid(invalid) = &error else {
        return error.into();
    };
    let flag = match invalid.field() {
        "lease_ttl" => "--lease-ttl",
        "slots" => slots,
        "node" => "--name",
        "selector" => "--select",
        _ => return error.into(),
    };
    Failure::Usage(format!("{flag}: {}", invalid.reason()))
}

/// Returns the failure of a process that cannot listen for signals.
pub(crate) fn signals(error: std::io::Error) -> Failure {
    Failure::Store(format!("signals cannot be listened for: {error}"))
}
