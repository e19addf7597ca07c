//! A split store whose two halves fail on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use windlass::{
    Action, Code, Command, Message, Outcome, State, Task, TaskId, async_trait,
    statemachine::{
        machine::{Step, Write},
        state::LastCommand,
        transition,
        transition::TABLE,
    },
    store::{
        Claimed, Commit, Error, Lease, NodeSpec, Send, StateStore, StateWrite, Store, Submit, What,
        memory::MemoryStates,
    },
    testing::FaultyStore,
};

/// States that are unavailable for a number of calls.
#[derive(Default)]
pub(crate) struct Flaky {
    pub(crate) states: MemoryStates,
    pub(crate) failing: AtomicUsize,
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
}

#[async_trait]
impl StateStore for Flaky {
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<State>, Error>> {
        match self.check() {
            Ok(()) => self.states.load(tasks).await,
            Err(e) => tasks.iter().map(|_| Err(e.clone())).collect(),
        }
    }

    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>> {
        match self.check() {
            Ok(()) => self.states.store(writes).await,
            Err(e) => writes.iter().map(|_| Err(e.clone())).collect(),
        }
    }

    async fn remove(&self, tasks: &[TaskId]) -> Vec<Result<(), Error>> {
        match self.check() {
            Ok(()) => self.states.remove(tasks).await,
            Err(e) => tasks.iter().map(|_| Err(e.clone())).collect(),
        }
    }
}

pub(crate) struct Kit {
    /// The coordinator alone.
    pub(crate) inner: Store,
    /// Between the two: its faults are those of the coordinator's write.
    pub(crate) faulty: FaultyStore,
    pub(crate) states: Arc<Flaky>,
    /// The whole.
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
        let spec = NodeSpec {
            name: name.parse().unwrap(),
            kinds: None,
            labels: Default::default(),
            slots: 1,
            pid: 1,
            version: String::new(),
        };
        let minute = Duration::from_secs(60);
        self.store.coordinator().join(&spec, minute).await.unwrap()
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

    pub(crate) async fn claim(&self, lease: &Lease, name: &str) -> Result<Option<Claimed>, Error> {
        let answers = self.store.coordinator().claim(lease, vec![id(name)]);
        answers.await.remove(0)
    }

    pub(crate) async fn send(&self, name: &str, command_id: &str, command: Command) -> u64 {
        let send = Send {
            task: id(name),
            id: command_id.parse().unwrap(),
            command,
        };
        self.store
            .registry()
            .send(vec![send])
            .await
            .remove(0)
            .unwrap()
    }

    /// Writes a message on behalf of a claim, as the answer to a command if it is one.
    pub(crate) async fn commit(
        &self,
        claimed: &mut Claimed,
        message: Message,
        command: Option<u64>,
    ) -> Result<(), Error> {
        let before = &claimed.state;
        let mut state = transition(before, &message, self.store.clock().now()).unwrap();
        state.version += 1;
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
            state.last_command = Some(LastCommand { order, outcome });
        }
        let release = matches!(message.action(), Action::Release);
        let write = Write {
            steps: vec![step],
            outcomes,
            drop_claim: release || state.code() != Code::Runnable,
            effects: Default::default(),
            state: state.clone(),
        };
        let claim = claimed.claim.clone();
        let answers = self
            .store
            .coordinator()
            .commit(vec![Commit { claim, write }]);
        answers.await.remove(0)?;
        claimed.state = state;
        Ok(())
    }

    pub(crate) async fn state(&self, name: &str) -> State {
        let record = self.store.registry().get(&id(name)).await.unwrap();
        record.state.unwrap()
    }

    pub(crate) async fn stored(&self, name: &str) -> Option<State> {
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

    /// The moves of a task's history, each checked to be one of the table and to go on from the one
    /// before.
    pub(crate) async fn moves(&self, name: &str) -> Vec<(Code, Code, Option<u64>)> {
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
                What::Submitted { state } => at = Some(state),
                What::Retried => at = Some(Code::Runnable),
                What::Moved {
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
