//! The props of an untyped task, and the values that the handlers of the node share.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use windlass_statemachine::TaskType;

use super::TaskContext;
use crate::handler::{props::PropsError, state::MissingState};

impl TaskContext {
    /// Returns the task's props as a type of your choice.
    ///
    /// # Errors
    ///
    /// [`PropsError`] when they do not parse as that type. An attempt that ends with this error is not
    /// retried, because props never change.
    pub fn props<T: DeserializeOwned>(&self) -> Result<T, PropsError> {
        let props = self.run.task.props.get("props");
        props.map_err(|invalid| {
            let held = self.run.props_error.get_or_init(Arc::default).clone();
            PropsError::new(invalid, held)
        })
    }
}

impl<J: TaskType> TaskContext<J> {
    /// Returns the value of this type that the handlers of the node share
    /// ([`Builder::state`](crate::runner::Builder::state)).
    ///
    /// # Errors
    ///
    /// [`MissingState`], which names the type. An attempt that fails with it is retried like every
    /// failed attempt: another node may have the value. With
    /// [`KindConfig::needs_state`](crate::KindConfig::needs_state) the start of the node reports it
    /// instead.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Client, Message, NewTask, Runner, Store, TaskContext};
    ///
    /// struct Mailer { from: &'static str }
    ///
    /// async fn mail(task: TaskContext) -> Result<Message, BoxError> {
    ///     let mailer = task.state::<Mailer>()?;
    ///     Ok(Message::complete_with(format!("sent by {}", mailer.from)))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let runner = Runner::builder(&store)
    ///     .state(Mailer { from: "a@b.example" })
    ///     .handler("mail", mail)
    ///     .start()
    ///     .await?;
    /// let task = Client::new(&store).submit(NewTask::new("mail")).await?;
    /// assert_eq!(task.wait::<String>().await?, "sent by a@b.example");
    /// runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T, MissingState> {
        self.run.shared.get()
    }
}
