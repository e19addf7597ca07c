//! [`Builder`]: the settings of a node.

use std::{sync::Arc, time::Duration};

use windlass_statemachine::task::Labels;

use super::{
    batched::Batched,
    config::{KindConfig, NodeConfig},
    kinds::KindEntry,
    node::Runner,
};
use crate::{
    balancer::{Balancer, Greedy},
    handler::{IntoMessages, Shared, StatefulHandler, TaskBatch, Typed},
    job::Job,
    store::Store,
};

/// Configures a node. Defaults: a name made of host and process, 100 slots, a lease of 15 s, tasks
/// parked when they sleep longer than 10 s, finished tasks kept for 7 days.
///
/// See [`Runner`] for an example.
#[must_use]
pub struct Builder {
    pub(super) store: Store,
    pub(super) name: Option<String>,
    pub(super) config: NodeConfig,
    pub(super) kinds: Vec<(String, KindEntry)>,
    pub(super) default: Option<KindEntry>,
    pub(super) schedules: bool,
    pub(super) selector: Labels,
    pub(super) balancer: Arc<dyn Balancer>,
    pub(super) shared: Shared,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Runner {
    /// Returns a builder for a node on this store.
    pub fn builder(store: &Store) -> Builder {
        Builder {
            store: store.clone(),
            name: None,
            config: NodeConfig::default(),
            kinds: Vec::new(),
            default: None,
            schedules: true,
            selector: Labels::new(),
            balancer: Arc::new(Greedy),
            shared: Shared::default(),
        }
    }
}

impl Builder {
    /// Sets the node's name, unique in the namespace; a unique generated name by default.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how many handlers run at once on this node: 1 to 1,000,000, 100 by default. A slot is
    /// free as soon as its handler has returned: the next task may start before the end of the
    /// previous one is durable.
    pub fn slots(mut self, slots: u32) -> Self {
        self.config.slots = slots;
        self
    }

    /// Sets the handler of a kind, with the defaults of [`KindConfig`].
    pub fn handler(self, kind: impl Into<String>, handler: impl StatefulHandler) -> Self {
        self.handler_with(kind, KindConfig::default(), handler)
    }

    /// Sets the handler of a kind, and its settings.
    pub fn handler_with(
        mut self,
        kind: impl Into<String>,
        config: KindConfig,
        handler: impl StatefulHandler,
    ) -> Self {
        self.kinds
            .push((kind.into(), KindEntry::new(config, handler)));
        self
    }

    /// Sets the handler of a typed kind, with the defaults of [`KindConfig`].
    ///
    /// See [`job`](crate::job) for an example.
    pub fn job<J: Job, M: 'static>(self, handler: impl StatefulHandler<J, M>) -> Self {
        self.job_with(KindConfig::default(), handler)
    }

    /// Sets the handler of a typed kind, and its settings.
    pub fn job_with<J: Job, M: 'static>(
        self,
        config: KindConfig,
        handler: impl StatefulHandler<J, M>,
    ) -> Self {
        self.handler_with(
            J::KIND,
            config.data_version(J::DATA_VERSION),
            Typed::new(handler),
        )
    }

    /// Sets a handler of a kind that works on up to `up_to` tasks in one call: as many as this node has claimed within
    /// `within` of the first one. Each task keeps its own claim, commands, attempts and message.
    ///
    /// The tasks of a batch have a slot each: give the node at least `up_to` slots. An error and a panic fail the
    /// attempt of every task of the batch.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{BoxError, Client, Message, NewTask, Runner, handler::TaskBatch, store::Store};
    ///
    /// # #[tokio::main] async fn main() -> Result<(), BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let client = Client::new(&store);
    /// let insert = |batch: TaskBatch| async move {
    ///     let rows = batch.tasks().iter().map(|task| task.props::<u32>());
    ///     let rows: Vec<u32> = rows.collect::<Result<_, _>>()?;
    ///     println!("one INSERT of {} rows", rows.len());
    ///     Ok::<_, BoxError>(Message::complete())
    /// };
    /// let runner = Runner::builder(&store)
    ///     .batch_handler("row", 100, Duration::from_millis(20), insert)
    ///     .start()
    ///     .await?;
    /// let id = client.submit(NewTask::new("row").props(&7)).await?;
    /// client.wait(&id).await?;
    /// runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn batch_handler<H, Fut>(
        self,
        kind: impl Into<String>,
        up_to: usize,
        within: Duration,
        handler: H,
    ) -> Self
    where
        H: Fn(TaskBatch) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoMessages,
    {
        self.handler(kind, Batched::new(up_to, within, handler))
    }

    /// Sets a handler for every kind without its own handler. The node then claims every kind.
    pub fn default_handler(mut self, config: KindConfig, handler: impl StatefulHandler) -> Self {
        self.default = Some(KindEntry::new(config, handler));
        self
    }

    /// Adds a value that the handlers of the node share, such as a connection pool: at most one of each
    /// type. Handlers get it with [`TaskContext::state`](crate::TaskContext::state).
    ///
    /// # Example
    ///
    /// See [`TaskContext::state`](crate::TaskContext::state).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.shared.insert(value);
        self
    }

    /// Leaves [schedules](crate::schedule) to other nodes. By default a node runs schedules, unless it
    /// has its own handler for the kind `schedule`. If the node has a default handler, that handler
    /// then runs them.
    pub fn without_schedules(mut self) -> Self {
        self.schedules = false;
        self
    }

    /// Takes only tasks that have this label, and all [schedules](crate::schedule), whatever their labels
    /// are.
    pub fn select(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.selector.insert(name.into(), value.into());
        self
    }

    /// Sets the balancer, which decides whether this node takes a task, and which tasks it releases
    /// for others: [`Greedy`] by default.
    pub fn balancer(mut self, balancer: impl Balancer + 'static) -> Self {
        self.balancer = Arc::new(balancer);
        self
    }

    /// Sets the lease time: how long the node's claims stand without a renewal. After that other
    /// nodes take its tasks. 15 s by default; 200 ms to 1 h. Use less than 5 s only for tests.
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.config.lease_ttl = ttl;
        self
    }

    /// Sets how often the node sets the gauges of the namespace and of its slots
    /// ([`telemetry`](crate::telemetry)): 15 s by default, at least 100 ms; never with
    /// [`Duration::MAX`]. While the program has no recorder, the node sets no gauges and does not query the store for them.
    pub fn gauges_every(mut self, every: Duration) -> Self {
        self.config.gauges_every = every;
        self
    }

    /// Sets the longest sleep for which a task keeps its claim: 10 s by default. A task that sleeps
    /// longer releases it.
    pub fn park_after(mut self, wait: Duration) -> Self {
        self.config.park_after = wait;
        self
    }

    /// Sets how long finished tasks are kept: 7 days by default, `None` for ever. The node looks
    /// for older tasks every tenth of `keep`: at most once a second, and at least once an hour.
    pub fn retention(mut self, keep: Option<Duration>) -> Self {
        self.config.retention = keep;
        self
    }

    /// Sets how long to wait for the name while a node that has it counts as live (an earlier
    /// process of this node that has crashed, say): not at all by default.
    pub fn wait_for_name(mut self, wait: Duration) -> Self {
        self.config.name_wait = wait;
        self
    }

    /// Sets how long to try to join while the store is unavailable (a file that another program
    /// has locked, a cluster without a quorum): not at all by default.
    pub fn wait_for_store(mut self, wait: Duration) -> Self {
        self.config.store_wait = wait;
        self
    }

    /// Ends the node when its lease could not be renewed or joined this many times in a row, because the store did not
    /// answer or failed: its handlers stop, and [`Runner::failure`](super::Runner::failure) and
    /// [`Runner::run_until`](super::Runner::run_until) return the last error. A supervisor may then start it again on a
    /// sound machine. By default, and with 0, there is no limit. The interval between two tries is a 60th to a 6th of
    /// the lease time, and at most 5 s once the lease is lost.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Message, Runner, TaskContext, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let runner = Runner::builder(&store)
    ///     .handler("poll", |_: TaskContext| async { Message::complete() })
    ///     .exit_after_store_errors(10)
    ///     .start()
    ///     .await?;
    /// assert!(runner.failure().is_none());
    /// # Ok(()) }
    /// ```
    pub fn exit_after_store_errors(mut self, errors: u32) -> Self {
        self.config.store_errors = errors;
        self
    }

    /// Sets whether failed attempts are written to standard error in a program that has never set a
    /// `tracing` subscriber: true by default. A program with a subscriber gets them as events of
    /// the level `WARN` instead.
    pub fn failures_to_stderr(mut self, write: bool) -> Self {
        self.config.failures_to_stderr = write;
        self
    }
}
