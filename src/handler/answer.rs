//! Replies to signals: [`TaskContext::answer`].

use serde::Serialize;
use windlass_statemachine::{Invalid, Json, Signal, TaskData, TaskType, machine::Answer};

use super::{TaskContext, asks::Asked};

/// Why a reply was not stored. The handler can still reply to the signal, unless the signal has its
/// outcome.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The reply or the data has no JSON form.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The reply was refused; the text is the reason (too large, the signal has its outcome, the
    /// claim is gone).
    #[error("could not reply to the signal: {0}")]
    Refused(String),
}

impl<J: TaskType> TaskContext<J> {
    /// Replies to a signal and continues. When this returns, the reply is durable, and the sender gets
    /// it. A later run does not get the signal again.
    ///
    /// [`Message::answer`](crate::Message::answer) replies with the message that the handler returns.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing was stored then, and the handler can still reply.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Command, Message, TaskContext, testing::Call};
    ///
    /// /// Adds what it gets, until it gets nothing more to add.
    /// async fn sum(task: TaskContext) -> Result<Message, BoxError> {
    ///     let (commands, mut total) = (task.commands(), 0);
    ///     while let Some(command) = commands.next().await {
    ///         let Command::Signal(signal) = command else { continue };
    ///         match signal.name() {
    ///             "add" => {
    ///                 total += signal.payload::<i64>()?;
    ///                 task.answer(&signal, &total).await?;
    ///             }
    ///             _ => return Ok(Message::complete_with(total).answer(&signal, &"done")),
    ///         }
    ///     }
    ///     Ok(Message::release())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let call = Call::new();
    /// let call = call.command(Command::signal("add", &2)?).command(Command::signal("add", &3)?);
    /// let ran = call.command(Command::signal("end", &())?).run(sum).await?;
    /// let replies = ran.replies::<serde_json::Value>()?;
    /// assert_eq!(replies, [2.into(), 5.into(), serde_json::Value::from("done")]);
    /// assert_eq!(ran.result::<i64>()?, Some(5));
    /// # Ok(()) }
    /// ```
    pub async fn answer<T: Serialize + ?Sized>(
        &self,
        signal: &Signal,
        reply: &T,
    ) -> Result<(), AnswerError> {
        self.reply(signal, Json::new("reply", reply)?, None).await
    }

    /// Replies to a signal, persists new data in the same write, and continues. The sender gets the reply
    /// if and only if a later run starts with the data.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing was stored then, and the handler can still reply.
    pub async fn answer_with<T, D>(
        &self,
        signal: &Signal,
        reply: &T,
        data: &D,
    ) -> Result<(), AnswerError>
    where
        J: TaskData<D>,
        T: Serialize + ?Sized,
        D: Serialize + ?Sized,
    {
        let data = Json::new("data", data)?;
        let reply = Json::new("reply", reply)?;
        self.reply(signal, reply, Some(data)).await
    }

    async fn reply(
        &self,
        signal: &Signal,
        reply: Json,
        data: Option<Json>,
    ) -> Result<(), AnswerError> {
        let answer = Answer {
            signal: signal.order(),
            reply,
            data: data.clone(),
        };
        let asked = Asked::Answer(answer);
        self.ask(asked).await.map_err(AnswerError::Refused)?;
        if let Some(data) = data {
            self.has_stored(data);
        }
        Ok(())
    }
}
