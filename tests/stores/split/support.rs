//! A split store whose two halves fail on demand.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;
use windlass::{
    Action, Command, Fence, Message, Outcome, StateKind, Task, TaskId, TaskState, async_trait,
    statemachine::{
        CommitId,
        machine::{Step, Write},
        state::LastCommand,
        transition,
        transition::TABLE,
    },
    store::{
        ChangeKind, Claimed, Commit, Delete, Error, Lease, NodeSpec, SendCommand, StateRemoval,
        StateStore, StateWrite, Store, Submit, memory::MemoryStates,
    },
    testing::{Fault, FaultyStore, Operation},
};

/// States that are unavailable for a number of calls, or hold a call until it is released.
#[derive(Default)]
pub(crate) struct Flaky {
    pub(crate) states: MemoryStates,
    pub(crate) failing: AtomicUsize,
    gate: Mutex<Option<Gate>>,
}

/// A call to hold.
struct Gate {
    at: Call,
    reached: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

/// The calls of a state store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Load,
    /// `store` or `remove`.
    Write,
}

impl Flaky {
    fn check(&self) -> Result<(), Error> {
        let next = |n: usize| n.checked_sub(1);
        match self
            .failing
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next)
        {
            Ok(_) => Err(Error::unavailable("reach the states", "a fault on demand")),
            Err(_) => Ok(()),
        }
    }

    /// Holds the next call of this kind. The first channel reports that the call was made; a message
    /// on the second lets the call continue.
    pub(crate) fn hold(&self, at: Call) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (reached, is_reached) = oneshot::channel();
        let (release, released) = oneshot::channel();
        *self.gate.lock().unwrap() = Some(Gate {
            at,
            reached,
            released,
        });
        (is_reached, release)
    }

    async fn pass(&self, call: Call) {
        let gate = self.gate.lock().unwrap().take_if(|gate| gate.at == call);
        if let Some(gate) = gate {
            gate.reached.send(()).unwrap();
            gate.released.await.unwrap();
        }
    }
}

#[async_trait]
impl StateStore for Flaky {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>> {
        self.pass(Call::Load).await;
        match self.check() {
            Ok(()) => self.states.load(tasks).await,
            Err(e) => tasks.iter().map(|_| Err(e.clone())).collect(),
        }
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        self.pass(Call::Write).await;
        match self.check() {
            Ok(()) => self.states.store(writes).await,
            Err(e) => writes.iter().map(|_| Err(e.clone())).collect(),
        }
    }

    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>> {
        self.pass(Call::Write).await;
        match self.check() {
            Ok(()) => self.states.remove(removals).await,
            Err(e) => removals.iter().map(|_| Err(e.clone())).collect(),
        }
    }
}

pub(crate) struct Kit {
    /// The coordinator, without the state store.
    pub(crate) inner: Store,
    /// Between the two: its faults are those of the coordinator's write.
    pub(crate) faulty: FaultyStore,
    pub(crate) states: Arc<Flaky>,
    /// The split store.
    pub(crate) store: Store,
}

pub(crate) fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

impl Kit {
    pub(crate) async fn new() -> Self {
        let inner = Store::open("memory:").await.unwrap();
        let faulty = FaultyStore::new(&inner);
        let states = Arc::new(Flaky::default());
        let store = faulty.store().with_state_store(states.clone());
        Self {
            inner,
            faulty,
            states,
            store,
        }
    }

    pub(crate) async fn node(&self, name: &str) -> Lease {
        self.node_for(name, Duration::from_secs(60)).await
    }

    pub(crate) async fn node_for(&self, name: &str, ttl: Duration) -> Lease {
        let mut spec = NodeSpec::new(name.parse().unwrap());
        spec.slots = 1;
        self.store.coordinator().join(&spec, ttl).await.unwrap()
    }

    /// Waits until a lease has ended because it was not renewed.
    pub(crate) async fn lost(&self, lease: &Lease) {
        loop {
            let nodes = self.inner.registry().nodes().await.unwrap();
            if nodes.iter().all(|node| node.lease != lease.id) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Puts a state of an earlier task with a great fence into the state store.
    pub(crate) async fn leave_behind(&self, name: &str) {
        let mut state = TaskState::new(self.store.clock().now());
        (state.fence, state.version) = (Fence(1_000), 1_000);
        (state.claims, state.incarnation) = (1, 7);
        state.data = Some(windlass::Json::new("data", "of another task").unwrap());
        state.status = windlass::TaskStatus::Killed;
        let task = id(name);
        let stored = self.states.states.store(vec![StateWrite::new(task, state)]);
        stored.await.into_iter().for_each(Result::unwrap);
    }

    pub(crate) async fn submit(&self, name: &str) {
        let task = Task::new(id(name), "demo".parse().unwrap());
        let if_exists = Default::default();
        let answers = self
            .store
            .registry()
            .submit(vec![Submit { task, if_exists }]);
        answers.await.remove(0).unwrap();
    }

    /// Deletes a task, also one that a node has claimed.
    pub(crate) async fn force_delete(&self, name: &str) {
        let forced = windlass::store::Operation::Delete(Delete::new(id(name)).forced());
        let answers = self.store.registry().apply(vec![forced.into()]);
        answers.await.remove(0).unwrap();
    }

    pub(crate) async fn claim(&self, lease: &Lease, name: &str) -> Result<Option<Claimed>, Error> {
        let answers = self.store.coordinator().claim(lease, vec![id(name)]);
        answers.await.remove(0)
    }

    pub(crate) async fn send(&self, name: &str, command_id: &str, command: Command) -> u64 {
        let send = SendCommand::new(id(name), command_id.parse().unwrap(), command);
        self.store
            .registry()
            .send(vec![send])
            .await
            .remove(0)
            .unwrap()
    }

    /// The write of a message, as the answer to a command if it is one. The claim continues from
    /// it.
    pub(crate) fn write(
        &self,
        claimed: &mut Claimed,
        message: Message,
        command: Option<u64>,
    ) -> Write {
        let before = &claimed.state;
        let mut state = transition(before, &message, self.store.clock().now()).unwrap();
        state.version += 1;
        state.commit = Some(CommitId(fastrand::u64(..)));
        let (from, to) = (before.code(), state.code());
        let step = Step {
            message: message.kind(),
            from,
            to,
            command,
        };
        let mut outcomes = Vec::new();
        if let Some(order) = command {
            let outcome = Outcome::Applied { from, to };
            outcomes.push((order, outcome.clone()));
            state.last_command = Some(LastCommand::new(order, outcome));
        }
        let release = matches!(message.action(), Action::Release);
        claimed.state = state.clone();
        Write {
            follows: state.version - 1,
            steps: vec![step],
            outcomes,
            drop_claim: release || state.code() != StateKind::Runnable,
            effects: Default::default(),
            state,
        }
    }

    /// Writes on behalf of a claim so that only the state store gets it.
    pub(crate) async fn lose(&self, claimed: &Claimed, write: Write) {
        self.faulty.fail(Operation::Commit, Fault::Before, 1);
        let claim = claimed.claim.clone();
        let answers = self
            .store
            .coordinator()
            .commit(vec![Commit::new(claim, write)]);
        let error = answers.await.remove(0).unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }

    /// Writes a message on behalf of a claim, as the answer to a command if it is one.
    pub(crate) async fn commit(
        &self,
        claimed: &mut Claimed,
        message: Message,
        command: Option<u64>,
    ) -> Result<(), Error> {
        let before = claimed.state.clone();
        let write = self.write(claimed, message, command);
        let claim = claimed.claim.clone();
        let answers = self
            .store
            .coordinator()
            .commit(vec![Commit::new(claim, write)]);
        let answer = answers.await.remove(0);
        if answer.is_err() {
            claimed.state = before;
        }
        answer
    }

    pub(crate) async fn state(&self, name: &str) -> TaskState {
        let record = self.store.registry().get(&id(name)).await.unwrap();
        record.state.unwrap()
    }

    pub(crate) async fn stored(&self, name: &str) -> Option<TaskState> {
        self.states
            .states
            .load(&[id(name)])
            .await
            .remove(0)
            .unwrap()
    }

    pub(crate) async fn outcome(&self, command: &str) -> Option<Outcome> {
        let command = command.parse().unwrap();
        let record = self.store.registry().command(&command).await;
        record.unwrap().outcome
    }

    /// The moves of a task's history, each checked to be one of the table and to continue from the
    /// one before.
    pub(crate) async fn moves(&self, name: &str) -> Vec<(StateKind, StateKind, Option<u64>)> {
        let history = self
            .store
            .registry()
            .history(&id(name), 1000)
            .await
            .unwrap();
        let mut moves = Vec::new();
        let mut at = None;
        for change in history {
            match change.what {
                ChangeKind::Submitted { state } => at = Some(state),
                ChangeKind::Retried => at = Some(StateKind::Runnable),
                ChangeKind::Moved {
                    message,
                    from,
                    to,
                    command,
                    ..
                } => {
                    assert_eq!(at, Some(from), "the history has a gap: {moves:?}");
                    assert_eq!(TABLE[from as usize][message as usize], Some(to));
                    moves.push((from, to, command));
                    at = Some(to);
                }
                _ => {}
            }
        }
        moves
    }
}
