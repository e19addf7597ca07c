//! The configuration of a runner: [`KindConfig`] for a kind, and the limits of the whole node.

use std::{sync::Arc, time::Duration};

use windlass_statemachine::{
    Bound, Invalid, Limit, Retry, RetryPolicy, Task, machine::Config, state::FIRST_DATA_VERSION,
};

use crate::{StatefulHandler, handler::Needed, store::Limits};

/// The settings of one kind.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass::{KindConfig, Retry};
///
/// let config = KindConfig::default()
///     .slots(4)
///     .stop_grace(Duration::from_secs(5))
///     .retry(Retry::exponential(10, Duration::from_secs(300)));
/// assert_eq!(config.max_slots(), Some(4));
/// ```
#[derive(Debug, Clone)]
pub struct KindConfig {
    pub(super) slots: Option<u32>,
    /// Whether its tasks do not count against the slots of the node.
    pub(super) is_apart: bool,
    pub(super) stop_grace: Duration,
    pub(super) retry: Arc<dyn RetryPolicy>,
    /// The data version; `None` for that of the handler.
    data_version: Option<u32>,
    takes_signals: bool,
    /// The types of the shared values that the handler needs.
    pub(crate) needs: Vec<Needed>,
}

impl Default for KindConfig {
    /// Returns the default settings: the slots of the node, 30 s of grace, the default [`Retry`].
    fn default() -> Self {
        Self {
            slots: None,
            is_apart: false,
            stop_grace: Duration::from_secs(30),
            retry: Arc::new(Retry::default()),
            data_version: None,
            takes_signals: true,
            needs: Vec::new(),
        }
    }
}

impl KindConfig {
    /// Sets the most handlers of this kind that run at once on this node; the node's own limit by
    /// default.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Exempts the tasks of the kind from the slots of the node, and releases the claim for each sleep,
    /// however short. For handlers that use next to no resources, and whose tasks must go on while all slots are taken.
    #[must_use]
    pub fn apart(mut self) -> Self {
        self.is_apart = true;
        self
    }

    /// Sets how long a handler may take to return after a command or a stop, before it is aborted:
    /// 30 s by default.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Sets the retry policy of tasks without their own policy.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.retry = Arc::new(policy);
        self
    }

    /// Sets the version of the data that the handler writes: 1 by default, and
    /// [`Job::DATA_VERSION`](crate::Job::DATA_VERSION) for a typed kind. The handler reads versions 1 to
    /// `version` ([`TaskContext::data_version`](crate::TaskContext::data_version)); its node claims no
    /// task with data of a newer version. The start of the node refuses 0.
    #[must_use]
    pub fn data_version(mut self, version: u32) -> Self {
        self.data_version = Some(version);
        self
    }

    /// Requires that the node has a shared value of this type
    /// ([`Builder::state`](crate::runner::Builder::state)). Without it the node does not start, and
    /// the handler cannot be added to a running node.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, KindConfig, Message, Runner, Store, TaskContext};
    ///
    /// struct Mailer;
    ///
    /// async fn mail(task: TaskContext) -> Result<Message, BoxError> {
    ///     let _mailer = task.state::<Mailer>()?;
    ///     Ok(Message::complete())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let config = KindConfig::default().needs_state::<Mailer>();
    /// let node = || Runner::builder(&store).handler_with("mail", config.clone(), mail);
    /// assert!(node().start().await.is_err());
    /// node().state(Mailer).start().await?.shutdown().await;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn needs_state<T: Send + Sync + 'static>(mut self) -> Self {
        self.needs.push(Needed::of::<T>());
        self
    }

    /// Adds the handler's own settings: whether it takes signals, and its data version unless one
    /// was set.
    pub(crate) fn of_handler(mut self, handler: &impl StatefulHandler) -> Self {
        self.data_version
            .get_or_insert_with(|| handler.data_version());
        self.takes_signals = handler.takes_signals();
        self
    }

    /// Returns the version of the data that the handler writes, which is also the newest that it
    /// reads.
    pub(crate) fn writes_version(&self) -> u32 {
        self.data_version.unwrap_or(FIRST_DATA_VERSION)
    }

    /// Returns the settings of the machine of a task of this kind.
    pub(crate) fn machine(&self, task: &Task, limits: Limits, park_after: Duration) -> Config {
        let retry: Arc<dyn RetryPolicy> = match &task.retry {
            Some(own) => Arc::new(own.clone()),
            None => self.retry.clone(),
        };
        Config {
            stop_grace: self.stop_grace,
            park_after: match self.is_apart {
                true => Duration::ZERO,
                false => park_after,
            },
            retry,
            max_data_bytes: limits.max_bytes.saturating_sub(task.props.len()),
            data_version: self.writes_version(),
            max_outcomes: limits.max_outcomes,
            takes_signals: self.takes_signals,
            idle_runs: IDLE_RUNS,
            named_runs: false,
            claim_per_attempt: has_limit_on_starts(task),
        }
    }

    /// Returns the limit that was set with [`slots`](Self::slots).
    pub fn max_slots(&self) -> Option<u32> {
        self.slots
    }
}

/// Returns whether the starts of a task are limited: each of its attempts then has a claim of its own, and counts.
pub(crate) fn has_limit_on_starts(task: &Task) -> bool {
    let mut bounds = task.limits.iter().map(Limit::bound);
    bounds.any(|bound| matches!(bound, Bound::Starts { .. }))
}

/// How many quick runs in a row may change nothing before the machine slows the handler.
pub(crate) const IDLE_RUNS: u32 = 100;

/// The longest sleep for which a task keeps its claim, by default.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(10);

/// The numeric settings of a node.
#[derive(Debug, Clone)]
pub(super) struct NodeConfig {
    pub(super) slots: u32,
    /// Whether callers set the slots while the node runs, so that it may start with none.
    pub(super) on_demand: bool,
    pub(super) lease_ttl: Duration,
    pub(super) park_after: Duration,
    pub(super) retention: Option<Duration>,
    pub(super) name_wait: Duration,
    pub(super) store_wait: Duration,
    /// The failures of the lease in a row that end the node; 0 for none.
    pub(super) store_errors: u32,
    pub(super) failures_to_stderr: bool,
    pub(super) gauges_every: Duration,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            slots: 100,
            on_demand: false,
            lease_ttl: Duration::from_secs(15),
            park_after: PARK_AFTER,
            retention: Some(Duration::from_secs(7 * 24 * 60 * 60)),
            name_wait: Duration::ZERO,
            store_wait: Duration::ZERO,
            store_errors: 0,
            failures_to_stderr: true,
            gauges_every: Duration::from_secs(15),
        }
    }
}

/// The minimum interval between two settings of the gauges.
const LEAST_GAUGES_EVERY: Duration = Duration::from_millis(100);

/// The most handlers that a node runs at once.
pub(super) const MAX_SLOTS: u32 = 1_000_000;

impl NodeConfig {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        if !self.on_demand {
            check_slots("slots", self.slots)?;
        }
        let ttl = self.lease_ttl;
        // Leases below 5 s are for tests: a busy machine can be late by seconds.
        if ttl < Duration::from_millis(200) || ttl > Duration::from_secs(3600) {
            let given = match ttl {
                Duration::ZERO => "0s".to_owned(),
                ttl => format!("{ttl:?}"),
            };
            let reason = format!("{given} is not from 200ms to 1h; 15s is the default");
            return Err(Invalid::new("lease_ttl", reason));
        }
        let every = self.gauges_every;
        if every < LEAST_GAUGES_EVERY {
            let reason =
                format!("{every:?} is less than {LEAST_GAUGES_EVERY:?}; 15s is the default");
            return Err(Invalid::new("gauges_every", reason));
        }
        Ok(())
    }
}

pub(super) fn check_slots(field: &'static str, slots: u32) -> Result<(), Invalid> {
    if !(1..=MAX_SLOTS).contains(&slots) {
        let reason = format!("{slots} is not from 1 to {MAX_SLOTS}");
        return Err(Invalid::new(field, reason));
    }
    Ok(())
}
