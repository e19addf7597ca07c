//! [`Builder`]: the handlers and settings of a simulation.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use windlass_statemachine::{Invalid, Kind};

use super::{Error, Simulation, node::KindEntry};
use crate::{
    KindConfig,
    handler::{Shared, StatefulHandler},
    job::{self, Job},
    store::model::data_versions::check_data_version,
    testing::START,
};

/// Collects the handlers and settings of a simulation. See [`Simulation`] for an example.
#[derive(Clone)]
#[must_use]
pub struct Builder {
    kinds: Vec<(String, KindEntry)>,
    start_at: Timestamp,
    patience: Duration,
    write_limit: u64,
    shared: Shared,
    /// What is called before the start, in order.
    before: Vec<Arc<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|(kind, _)| kind.as_str()).collect();
        f.debug_struct("Builder")
            .field("kinds", &kinds)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            kinds: Vec::new(),
            start_at: START,
            patience: Duration::from_secs(60),
            write_limit: 1_000_000,
            shared: Shared::default(),
            before: Vec::new(),
        }
    }

    /// Adds the handler of a kind, with the defaults of [`KindConfig`].
    pub fn handler(self, kind: impl Into<String>, handler: impl StatefulHandler) -> Self {
        self.handler_with(kind, KindConfig::default(), handler)
    }

    /// Adds the handler of a kind, with a configuration.
    pub fn handler_with(
        mut self,
        kind: impl Into<String>,
        config: KindConfig,
        handler: impl StatefulHandler,
    ) -> Self {
        let config = config.of_handler(&handler);
        let handler = Arc::new(handler);
        let shared = Shared::default();
        let entry = KindEntry {
            handler,
            config,
            shared,
        };
        self.kinds.push((kind.into(), entry));
        self
    }

    /// Adds the handler of a typed kind, with the defaults of [`KindConfig`].
    ///
    /// # Example
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{BoxError, Job, TaskContext, testing::Simulation};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Double(u64);
    /// impl Job for Double {
    ///     const KIND: &str = "double";
    ///     type Data = ();
    ///     type Output = u64;
    /// }
    /// async fn double(task: TaskContext<Double>) -> u64 {
    ///     task.job().0 * 2
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let mut simulation = Simulation::builder().job(double).start().await?;
    /// let task = simulation.client().submit(Double(21)).await?;
    /// simulation.run(&task).await?;
    /// assert_eq!(task.wait().await?, 42);
    /// # Ok(()) }
    /// ```
    pub fn job<J: Job, M: 'static>(self, handler: impl StatefulHandler<J, M>) -> Self {
        self.handler(J::KIND, job::handler(handler))
    }

    /// Adds a value that the handlers share, like
    /// [`runner::Builder::state`](crate::runner::Builder::state). All lives of
    /// [`crash_everywhere`](Self::crash_everywhere) share it: [`before`](Self::before) resets what handlers have changed.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.shared.insert(value);
        self
    }

    /// Calls a function before each [`start`](Self::start), so before each life of
    /// [`crash_everywhere`](Self::crash_everywhere), and not after the crash. It resets what is outside of the tasks, such as a
    /// database or a fake of it: what an earlier life has done there would hide what this one does.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use windlass::{BoxError, Message, NewTask, TaskContext, testing::Simulation};
    ///
    /// type Mails = Arc<Mutex<Vec<String>>>;
    ///
    /// /// Sends a mail. The server drops a second one with the same key.
    /// async fn mail(task: TaskContext) -> Result<Message, BoxError> {
    ///     let (mut mails, key) = (task.state::<Mails>()?.lock().unwrap(), task.id().to_string());
    ///     if !mails.contains(&key) {
    ///         mails.push(key);
    ///     }
    ///     Ok(Message::complete())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let mails = Mails::default();
    /// let reset = mails.clone();
    /// Simulation::builder()
    ///     .handler("mail", mail)
    ///     .state(mails.clone())
    ///     .before(move || reset.lock().unwrap().clear())
    ///     .crash_everywhere(NewTask::new("mail"), |_| assert_eq!(mails.lock().unwrap().len(), 1))
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn before(mut self, prepare: impl Fn() + Send + Sync + 'static) -> Self {
        self.before.push(Arc::new(prepare));
        self
    }

    /// Sets the virtual time of the start: 2030-01-01T00:00:00Z by default.
    pub fn start_at(mut self, at: Timestamp) -> Self {
        self.start_at = at;
        self
    }

    /// Sets how long a handler may run before it is assumed to wait for a command, by tokio's time:
    /// 60 s by default.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the most writes in one call of the simulation: 1,000,000 by default.
    pub fn write_limit(mut self, writes: u64) -> Self {
        self.write_limit = writes;
        self
    }

    /// Starts the node of the simulation, on an empty store in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (fields `kind`, `handler`, `state`), [`Error::MissingState`].
    pub async fn start(self) -> Result<Simulation, Error> {
        let mut kinds = HashMap::new();
        self.shared.check()?;
        for (kind, mut entry) in self.kinds {
            let kind = Kind::new(kind)?;
            check_data_version(entry.config.writes_version())?;
            if let Err(missing) = self.shared.has(&entry.config.needs) {
                return Err(Error::MissingState { kind, missing });
            }
            entry.shared = self.shared.clone();
            if kinds.insert(kind.clone(), entry).is_some() {
                let reason = format!("'{kind}' has two handlers; give it one");
                return Err(Invalid::new("handler", reason).into());
            }
        }
        if kinds.is_empty() {
            let reason = "is missing; add one with `handler` or `job`";
            return Err(Invalid::new("handler", reason).into());
        }
        for prepare in &self.before {
            prepare();
        }
        let limits = super::Limits {
            patience: self.patience,
            writes: self.write_limit,
        };
        Simulation::start(kinds, self.start_at, limits).await
    }
}
