//! Commands: sent to the queue of a task, and found again by their id.

use windlass_statemachine::{Command, CommandId, TaskId, message::SendCommand};

use crate::store::{
    CommandRecord, Error,
    etcd::{
        read::{Access, Known},
        schema::{Of, Snapshot, numbers::number},
        write::{Change, Edit, Step, edit},
    },
    rules,
};

/// Sends commands, and finds them.
pub(crate) struct Commands {
    pub(crate) access: Access,
    pub(crate) max_bytes: usize,
}

impl Commands {
    pub(crate) fn new(access: Access, max_bytes: usize) -> Self {
        Self { access, max_bytes }
    }

    pub(crate) async fn send(&self, send: SendCommand) -> Result<u64, Error> {
        let is_plain = !matches!(send.command, Command::Complete { result: Some(_) })
            && send.command.check(self.access.now()).is_ok();
        let mut sending = Sending {
            by: self,
            send: &send,
            is_known_well: is_plain,
            place: 0,
        };
        self.access.pipeline.attempt(&mut sending).await
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

struct Sending<'a> {
    by: &'a Commands,
    send: &'a SendCommand,
    /// Nothing has to be read before the first try: its comparisons say whether it is sound.
    is_known_well: bool,
    place: u32,
}

impl Change for Sending<'_> {
    /// What the id stands for, and the task; not read before the first try if that needs nothing.
    type Found = Option<(Known, Snapshot)>;
    type Output = u64;
    const OPERATION: &'static str = "send a command";

    async fn read(&mut self) -> Result<Self::Found, Error> {
        if std::mem::replace(&mut self.is_known_well, false) {
            return Ok(None);
        }
        let reader = &self.by.access.reader;
        let known = reader.known(&self.send.id).await?;
        let found = match known.task {
            Some(_) => Snapshot::default(),
            None => reader.found(&self.send.task, Self::OPERATION).await?,
        };
        Ok(Some((known, found)))
    }

    /// A command that is known by its id was sent, by this try or another one.
    fn already_done(&mut self, found: &Self::Found) -> Option<u64> {
        let (known, _) = found.as_ref()?;
        let stored = known.stored.as_ref()?;
        (known.task.as_ref() == Some(&self.send.task)).then_some(stored.order)
    }

    async fn build(&mut self, found: Self::Found) -> Result<Step<u64>, Error> {
        let (by, send, now) = (self.by, self.send, self.by.access.now());
        let mut pointer = 0;
        if let Some((known, found)) = &found {
            if let Some(task) = &known.task {
                return Err(Error::other_command(&send.id, task));
            }
            match (&found.task, &found.finished) {
                (Some(_), _) => {}
                (None, Some(_)) => return Err(Error::AlreadyFinished(send.task.clone())),
                (None, None) => return Err(Error::no_task(&send.task)),
            }
            let task = found.whole_task(&send.task);
            let props = task.map_or(0, |task| task.props.len());
            rules::command::check(&send.command, props, by.max_bytes, now)?;
            pointer = known.revision;
        }
        let mut item = by.access.item(&send.task, 1);
        self.place = item.place;
        let mut edit = Edit::new(by.access.keys(), &send.task, &mut item);
        edit.when_there(Of::Task);
        edit.put_command(&edit::Sent {
            id: &send.id,
            command: &send.command,
            at: now,
            place: self.place,
            pointer,
        })?;
        Ok(Step::Write(item))
    }

    fn written(&mut self, at: i64) -> Option<u64> {
        Some(number(at, self.place))
    }
}
