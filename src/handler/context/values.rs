//! The props of an untyped task, and the values that the handlers of the node share.

use serde::de::DeserializeOwned;
use windlass_statemachine::TaskType;

use super::TaskContext;
use crate::handler::{mark::Mark, props::PropsError, state::MissingState};

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
            let mark = self.run.props_error.get_or_init(Mark::default).clone();
            PropsError::new(invalid, mark)
        })
    }
}

impl<J: TaskType> TaskContext<J> {
    /// Returns the value of this type that the handlers of the node share
    /// ([`Builder::state`](crate::runner::Builder::state)).
    ///
    /// # Errors
    ///
    /// [`MissingState`], which names the type. A run that ends with it is a fault of the node
    /// ([`node_fault`](Self::node_fault)), and costs no attempt: another node may have the value. That is so when the handler
    /// returns this error, returns another error that contains it, or panics with it (`unwrap`). An error made only of its
    /// text is a failed attempt. A [`Simulation`](crate::testing::Simulation) ends with this error. With
    /// [`KindConfig::needs_state`](crate::KindConfig::needs_state) the start of the node reports it instead.
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
        let value = self.run.shared.get();
        value.map_err(|missing| self.run.missing(missing))
    }
}
