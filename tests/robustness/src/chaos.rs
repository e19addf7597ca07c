//! [`run`]: one run of everything at once, until everything has settled and was checked.
#![allow(clippy::print_stderr, reason = "a test that names its seeds")]

use std::time::{Duration, Instant as Moment};

use fastrand::Rng;
use tokio::time::Instant;
use windlass::{ActionKind, Client, Outcome, store::ChangeKind};

use crate::{
    BoxError,
    cluster::Shaking,
    disturb::{disturb, shake},
    ground,
    invariants::{
        self, Overlaps, Timed,
        takeover::{self, Within},
    },
    plan::Plan,
    scene::{Ground, Post, Scene},
    settle::settle,
    site::Programs,
    witness::Said,
    world::World,
};

/// How much later than its lease a claim may end on a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The seed of all random choices.
    pub seed: u64,
    /// How many tasks the test submits.
    pub tasks: usize,
    /// How often a worker is killed.
    pub kills: u32,
    /// How often several workers are killed at the same time: two, then all, by turns.
    pub together: u32,
    /// How often a worker is stopped for longer than its lease.
    pub stops: u32,
    /// How often a worker is asked to shut down, and started again.
    pub shutdowns: u32,
    /// How long the workers are disturbed.
    pub over: Duration,
    /// How long leases last.
    pub ttl: Duration,
    /// How long the writes of handlers take to reach the store, at most.
    pub late: Duration,
    /// How long everything may take to settle afterwards.
    pub settle: Duration,
    /// The store of the tasks.
    pub ground: Ground,
    /// The disturbances of the members of etcd.
    pub shaking: Shaking,
}

/// The summary of a run.
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
    /// How many writes with effects were refused because of them.
    pub refused: usize,
    /// How many ids were submitted by two clients at the same time.
    pub races: usize,
    /// How many transactions competed for a task.
    pub passes: usize,
    /// How many signals got a reply.
    pub replies: usize,
    /// How many commands were sent to nodes.
    pub node_commands: usize,
    /// How many claims took the last slot that a limit of more than one had for them.
    pub filled: usize,
    /// How many tasks met or missed their deadlines.
    pub timed: Timed,
    /// How often handlers ran, and how often at the same time as that of a later claim while their
    /// process was paused.
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
            "{} tasks, {} commands, {} changes, {} kills, {} stops, {} claims lost with their lease, {} late writes refused, {} effects refused, {} ids submitted twice at once, {} transactions, {} replies to signals, {} commands to nodes, {} claims filled a limit, deadlines: {}, {} of {} runs and {} commands overlapped in a pause, in {:.1?}",
            self.tasks,
            self.commands,
            self.changes,
            self.kills,
            self.stops,
            self.lost,
            self.fenced,
            self.refused,
            self.races,
            self.passes,
            self.replies,
            self.node_commands,
            self.filled,
            self.timed,
            self.overlaps.excused,
            self.overlaps.runs,
            self.overlaps.commands,
            self.took
        )
    }
}

/// Kinds that a split store does not run: their effects are refused, and the command line knows no
/// split store.
const NOT_SPLIT: [&str; 3] = ["exec", "parent", "sower"];

/// Disturbs the workers while they run tasks, lets everything settle, and checks what is left.
///
/// # Errors
///
/// What does not hold, with the histories of the tasks that show it.
pub async fn run(programs: Programs, settings: Settings) -> Result<Summary, BoxError> {
    let mut scene = Scene::empty(programs, settings.ttl, settings.late, settings.ground).await?;
    scene.man(&Post::usual(settings.ground))?;
    match play(&mut scene, settings).await {
        Ok(summary) => Ok(summary),
        Err(e) => {
            let folder = scene.keep();
            let seed = settings.seed;
            Err(format!("WINDLASS_SEED={seed}, everything is in {folder}\n{e}").into())
        }
    }
}

/// An event that must occur in a run for its checks to mean something: its name, and its count in a
/// run.
pub type Shown = (&'static str, fn(&Summary) -> usize);

/// How many runs are tried until everything was shown.
const RUNS: usize = 4;

/// Runs, and repeats with the next seeds until every event has occurred: chance decides the events
/// of one run, and a slow machine has fewer.
///
/// # Errors
///
/// The errors of [`run`], and the events that occurred in none of four runs.
pub async fn run_until_shown(
    programs: Programs,
    settings: Settings,
    shown: &[Shown],
) -> Result<(), BoxError> {
    let mut open: Vec<&Shown> = shown.iter().collect();
    for seed in (settings.seed..).take(RUNS) {
        let summary = run(programs, Settings { seed, ..settings }).await?;
        eprintln!("seed {seed}: {summary}");
        open.retain(|(_, count)| count(&summary) == 0);
        if open.is_empty() {
            return Ok(());
        }
    }
    let names: Vec<&str> = open.iter().map(|(name, _)| *name).collect();
    Err(format!("in {RUNS} runs there were no {}", names.join(", no ")).into())
}

async fn play(scene: &mut Scene, settings: Settings) -> Result<Summary, BoxError> {
    let began = Moment::now();
    let mut rng = Rng::with_seed(settings.seed);
    let mut plan = Plan::new(rng.u64(..), &scene.site.witnesses()).with_deadlines();
    if settings.ground == Ground::Split {
        plan = plan.without(&NOT_SPLIT);
    }
    let start = Instant::now();
    let until = start + settings.over;
    let traffic = &scene.traffic;
    let other = Client::new(&ground::open(&scene.store).await?);
    let (one, two, three, four) = (rng.fork(), rng.fork(), rng.fork(), rng.fork());
    let five = rng.fork();
    tokio::try_join!(
        traffic.submit(&mut plan, settings.tasks, settings.over.mul_f64(0.8)),
        traffic.command_at_random(one, until),
        traffic.command_nodes(two, until),
        traffic.reuse(rng.fork(), until),
        traffic.race(&other, rng.fork(), until),
        traffic.pass(&other, five, until),
        disturb(&mut scene.workers, &scene.client, three, start, settings),
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
    scene.traffic.hear_nodes(settings.ttl * 4).await?;
    let world = scene.end(settings.settle).await?;
    scene.check(&world)?;
    if settings.stops == 0 && settings.ground != Ground::Etcd(3) {
        in_time(&world, settings.ttl)?;
    }
    let changes = || world.subjects.values().flat_map(|s| &s.history);
    Ok(Summary {
        tasks: world.subjects.len(),
        commands: world.promised.commands.len(),
        changes: changes().count(),
        lost: changes()
            .filter(|c| matches!(c.what, ChangeKind::Lost { .. }))
            .count(),
        fenced: (world.witness.iter())
            .filter(|l| matches!(l.said, Said::Fenced { .. }))
            .count(),
        refused: refused(&world),
        races: world.promised.races.len(),
        passes: world.promised.passes.len(),
        replies: replies(&world),
        node_commands: world.promised.node_commands.len(),
        filled: invariants::filled(&world),
        timed: invariants::timed(&world),
        overlaps: invariants::overlaps(&world),
        kills: settings.kills,
        stops: settings.stops,
        took: began.elapsed(),
    })
}

/// Fails when claims of workers that were killed outlived their leases.
fn in_time(world: &World, ttl: Duration) -> Result<(), BoxError> {
    let within = Within {
        lost: ttl + SLACK,
        // There may be no slot, or a node that is frozen.
        claimed: None,
    };
    let found = takeover::check(world, within);
    match found.first() {
        Some((task, how)) => {
            Err(format!("{} takeovers are late: {task}: {how}", found.len()).into())
        }
        None => Ok(()),
    }
}

/// How many signals got a reply.
fn replies(world: &World) -> usize {
    let commands = world.subjects.values().flat_map(|s| &s.commands);
    let answered = |o: &Outcome| matches!(o, Outcome::Answered { .. });
    commands
        .filter(|c| c.outcome.as_ref().is_some_and(answered))
        .count()
}

/// How many steps of the kind `sower` failed: by effects that were refused.
fn refused(world: &World) -> usize {
    let sowers = world.subjects.values();
    let sowers = sowers.filter(|s| s.record.task.kind.as_str() == "sower");
    let changes = sowers.flat_map(|s| &s.history);
    let failed = |what: &ChangeKind| {
        let message = match what {
            ChangeKind::Moved { message, .. } => message,
            _ => return false,
        };
        *message == ActionKind::Error
    };
    changes.filter(|c| failed(&c.what)).count()
}
