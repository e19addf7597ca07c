//! [`Simulation`]: runs handlers on one node in virtual time.

mod builder;
mod error;
mod node;
mod world;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Command, CommandId, Invalid, Kind, Outcome, TaskId};

pub use self::{builder::Builder, error::Error, world::CrashPoint};
use self::{
    node::{KindEntry, Node},
    world::World,
};
use super::History;
use crate::{
    client::{Client, Done},
    clock::Clock,
    handler::Shared,
    schedule::{KIND, Scheduler},
};

/// Runs handlers on one node in virtual time: a sleep of a year takes no longer than one of a second.
///
/// # Flow
///
/// 1. [`builder`](Self::builder) names the handlers; [`Builder::start`] starts a node on an empty
///    store in memory.
/// 2. [`client`](Self::client) submits tasks. Nothing runs until the simulation is run.
/// 3. [`run`](Self::run), [`advance`](Self::advance) and [`command`](Self::command) run handlers.
///    When nothing is left to do, the time jumps to the next wake-up.
///
/// # Guarantees
///
/// - Handlers, retry policies, effects and commands go through the production state machine and
///   store; `tests/handlers/simulation/` compares the histories with those of a [`Runner`](crate::Runner).
/// - Virtual time stands still while handlers work. A wake-up is never late.
/// - [`TaskContext::now`](crate::TaskContext::now) returns the virtual time.
/// - Retries wait for half of the longest time that their policy allows, instead of a random time.
///
/// # Caveats
///
/// - A handler's own waits (I/O, [`tokio::time::sleep`]) take real time, as in any other test.
///   `#[tokio::test(start_paused = true)]` skips the sleeps.
/// - A handler that reads the clock of the operating system, instead of [`TaskContext::now`](crate::TaskContext::now),
///   waits for a time that never comes, or runs again and again ([`Error::Idle`]).
/// - A handler that has not returned within the [`patience`](Builder::patience) is assumed to wait for
///   a command, and the time moves on without it.
/// - There is one node at a time: balancers, leases and labels are not simulated.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass::{BoxError, Message, NewTask, TaskContext, testing::Simulation};
///
/// async fn poll(task: TaskContext) -> Result<Message, BoxError> {
///     let polls: u32 = task.data()?.unwrap_or(0) + 1;
///     Ok(Message::sleep_for(Duration::from_secs(3600)).with_data(&polls))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// let mut simulation = Simulation::builder().handler("poll", poll).start().await?;
/// let id = simulation.client().submit(NewTask::new("poll")).await?;
/// simulation.advance(Duration::from_secs(24 * 3600)).await?;
/// let state = simulation.client().get(&id).await?.state?;
/// assert_eq!(state.data.unwrap().as_str(), "25"); // at 00:00, 01:00, … 24:00
/// # Ok(()) }
/// ```
pub struct Simulation {
    world: World,
    kinds: Arc<HashMap<Kind, KindEntry>>,
    /// The node; `None` only while a new node replaces a lost one.
    node: Option<Node>,
    client: Client,
    limits: Limits,
}

/// The limits that prevent a simulation from running for ever.
#[derive(Debug, Clone, Copy)]
struct Limits {
    patience: Duration,
    writes: u64,
}

/// The goal of a run.
enum Goal<'a> {
    Time(Timestamp),
    End(&'a TaskId),
    Outcome(&'a CommandId),
}

/// How long the tasks of a lost node stay claimed: the default lease of a node.
const TAKEN_OVER: Duration = Duration::from_secs(15);

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("now", &self.now())
            .field("writes", &self.world.writes)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// Returns the builder of a simulation.
    pub fn builder() -> Builder {
        Builder::new()
    }

    async fn start(
        mut kinds: HashMap<Kind, KindEntry>,
        start: Timestamp,
        limits: Limits,
    ) -> Result<Self, Error> {
        let mut world = World::new(start);
        let store = world.whole.clone();
        let scheduler = || KindEntry {
            handler: Arc::new(Scheduler::new(&store)),
            config: Scheduler::config(),
            shared: Shared::default(),
        };
        kinds.entry(Kind::new(KIND)?).or_insert_with(scheduler);
        let kinds = Arc::new(kinds);
        let node = Node::join(&mut world, kinds.clone()).await?;
        Ok(Self {
            world,
            kinds,
            node: Some(node),
            client: Client::new(&store),
            limits,
        })
    }

    /// Returns the client of the simulated namespace. Its methods that wait for a task or a command never
    /// return, because no handler runs in the meantime: use [`run`](Self::run) and
    /// [`command`](Self::command).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Returns the number of durable writes: transitions, checkpoints and releases of all tasks.
    pub fn writes(&self) -> u64 {
        self.world.writes
    }

    /// Runs until this task has ended, and returns its end.
    ///
    /// # Errors
    ///
    /// [`Error::Stuck`], [`Error::Waiting`], [`Error::Idle`], [`Error::Endless`], [`Error::MissingState`],
    /// [`Error::Store`].
    pub async fn run(
        &mut self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<Done, Error> {
        let task = &task.try_into().map_err(Into::<Invalid>::into)?;
        if !self.drive(Goal::End(task)).await? {
            return Err(self.stuck(task).await?);
        }
        Ok(Done::from_record(self.client.get(task).await?)?)
    }

    /// Lets this time pass, and runs every task that becomes due. `Duration::ZERO` runs the tasks that
    /// are due now.
    ///
    /// # Errors
    ///
    /// [`Error::Idle`], [`Error::Endless`], [`Error::MissingState`],
    /// [`Error::Store`].
    pub async fn advance(&mut self, by: Duration) -> Result<(), Error> {
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        let until = self.now().checked_add(by).unwrap_or(Timestamp::MAX);
        self.drive(Goal::Time(until)).await?;
        self.leap(until);
        Ok(())
    }

    /// Sends a command to a task, and runs until the command has its outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] with the error of [`Client::command`]; [`Error::Stuck`],
    /// [`Error::Waiting`], [`Error::Idle`], [`Error::Endless`], [`Error::MissingState`].
    pub async fn command(
        &mut self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        command: Command,
    ) -> Result<Outcome, Error> {
        let task = &task.try_into().map_err(Into::<Invalid>::into)?;
        let id = self.client.command(task, command).await?;
        self.drive(Goal::Outcome(&id)).await?;
        match self.client.outcome(&id).await? {
            Some(outcome) => Ok(outcome),
            None => Err(self.stuck(task).await?),
        }
    }

    /// Loses the node, as a power cut does, and drops its handlers. After 15 s of virtual time another
    /// node takes over the tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub async fn crash(&mut self) -> Result<(), Error> {
        if let Some(node) = self.node.take() {
            let lease = node.die(self.limits.patience).await;
            self.world.store.lose_lease(lease.id);
        }
        self.world.clock.advance(TAKEN_OVER);
        let node = Node::join(&mut self.world, self.kinds.clone()).await?;
        self.node = Some(node);
        Ok(())
    }

    /// Plans the loss of the node at this write, counted from the start of the simulation.
    pub fn crash_at(&mut self, point: CrashPoint) {
        self.world.plan(point);
    }

    /// Returns the history of a task.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub async fn history(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<History, Error> {
        let task = task.try_into().map_err(Into::<Invalid>::into)?;
        Ok(History::read(&self.client, &task).await?)
    }

    /// Runs until the goal is reached. Returns `false` when nothing more happens before.
    async fn drive(&mut self, goal: Goal<'_>) -> Result<bool, Error> {
        self.world.limit = self.world.writes.saturating_add(self.limits.writes);
        self.world.idle = None;
        loop {
            let Some(node) = self.node.as_mut() else {
                self.crash().await?;
                continue;
            };
            node.work(&mut self.world).await;
            if let Some((kind, missing)) = self.world.missing.take() {
                return Err(Error::MissingState { kind, missing });
            }
            if self.world.take_crash() {
                self.crash().await?;
                continue;
            }
            if self.world.is_over_limit() {
                let writes = self.limits.writes;
                return Err(Error::Endless { writes });
            }
            if self.is_reached(&goal).await? {
                return Ok(true);
            }
            let Some(node) = self.node.as_mut() else {
                continue;
            };
            // Another handler may do what the idle one waits for.
            if !node.runs()
                && let Some((task, runs)) = self.world.idle.take()
            {
                return Err(Error::Idle { task, runs });
            }
            if node.is_busy() {
                node.wait(&mut self.world, self.limits.patience).await;
                continue;
            }
            let next = node.next_in(&self.world);
            let next = next.and_then(|wait| SignedDuration::try_from(wait).ok());
            let Some(next) = next.and_then(|wait| self.now().checked_add(wait).ok()) else {
                return Ok(false);
            };
            if matches!(goal, Goal::Time(until) if next > until) {
                return Ok(true);
            }
            self.leap(next);
        }
    }

    async fn is_reached(&self, goal: &Goal<'_>) -> Result<bool, Error> {
        match goal {
            Goal::Time(_) => Ok(false),
            Goal::End(task) => {
                let state = self.client.get(*task).await?.state?;
                Ok(state.code().is_terminal())
            }
            Goal::Outcome(command) => Ok(self.client.outcome(*command).await?.is_some()),
        }
    }

    /// Moves the time forward to this moment.
    fn leap(&self, to: Timestamp) {
        let wait = to.duration_since(self.now());
        if let Ok(wait) = Duration::try_from(wait) {
            self.world.clock.advance(wait);
        }
    }

    async fn stuck(&self, task: &TaskId) -> Result<Error, Error> {
        let task = task.clone();
        if self
            .node
            .as_ref()
            .is_some_and(|node| node.is_waiting(&task))
        {
            let patience = self.limits.patience;
            return Ok(Error::Waiting { task, patience });
        }
        let state = self.client.get(&task).await?.state?.code().to_string();
        Ok(Error::Stuck { task, state })
    }
}
