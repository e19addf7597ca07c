//! Commands: adds them to the queue of their task, and finds them by their id.

use windlass_statemachine::{Author, Command, CommandId, TaskId, message::SendCommand};

use crate::store::{
    CommandRecord, Error,
    etcd::{
        read::Access,
        schema::{Of, numbers::number},
        write::{Edit, Tries, Wrote, edit},
    },
    rules,
};

const OPERATION: &str = "send a command";

/// Sends commands, and finds them.
pub(crate) struct Commands {
    pub(crate) access: Access,
    pub(crate) max_bytes: usize,
}

impl Commands {
    pub(crate) async fn send(&self, send: SendCommand, by: Option<&Author>) -> Result<u64, Error> {
        let access = &self.access;
        let mut tries = Tries::new(&access.pipeline, OPERATION);
        // The first try of most commands reads nothing: its comparisons show whether it is valid.
        let is_small = match &send.command {
            Command::Complete { result } => result.is_none(),
            Command::Signal(signal) => signal.payload_json().is_none(),
            _ => true,
        };
        let mut is_valid = is_small && send.command.check(access.now()).is_ok();
        loop {
            let pointer = match std::mem::replace(&mut is_valid, false) {
                true => 0,
                false => match Box::pin(self.find(&send)).await? {
                    Found::Sent { order } => return Ok(order),
                    Found::New { pointer } => pointer,
                },
            };
            let mut item = access.item(&send.task, 1).by(by);
            let place = item.place;
            let mut edit = Edit::new(access.keys(), &send.task, &mut item);
            edit.when_there(Of::Task);
            edit.put_command(&edit::Sent {
                id: &send.id,
                command: &send.noted(),
                at: access.now(),
                place,
                pointer,
            })?;
            if let Wrote::At(at) = tries.write(item).await? {
                return Ok(number(at, place));
            }
        }
    }

    /// Looks up a command by its id, because this try or another one may have sent it. Checks a new
    /// one against its task.
    async fn find(&self, send: &SendCommand) -> Result<Found, Error> {
        let (reader, id) = (&self.access.reader, &send.task);
        let known = reader.known(&send.id).await?;
        match (known.task, known.stored) {
            (Some(task), Some(stored)) if task == *id => {
                let order = stored.order;
                return Ok(Found::Sent { order });
            }
            (Some(task), _) => return Err(Error::other_command(&send.id, &task)),
            (None, _) => {}
        }
        let found = reader.found(id, OPERATION).await?;
        match (&found.task, &found.finished) {
            (Some(_), _) => {}
            (None, Some(_)) => return Err(Error::finished(id)),
            (None, None) => return Err(Error::no_task(id)),
        }
        let props = found.whole_task(id).map_or(0, |task| task.props.len());
        rules::command::check(&send.command, props, self.max_bytes, self.access.now())?;
        let pointer = known.revision;
        Ok(Found::New { pointer })
    }

    pub(crate) async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        let known = self.access.reader.known(id).await?;
        let found = known.task.zip(known.stored);
        let found = found.and_then(|(task, stored)| stored.record(&task));
        found.ok_or_else(|| Error::no_command(id))
    }

    pub(crate) async fn commands(&self, id: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        let all = self.access.reader.stored_commands(id).await?;
        Ok(all.iter().filter_map(|stored| stored.record(id)).collect())
    }
}

/// The result of looking up a command id.
enum Found {
    /// The command was sent.
    Sent { order: u64 },
    /// The command does not exist, or belongs to a deleted task. Its pointer was written at this
    /// revision; 0 if it does not exist.
    New { pointer: i64 },
}
