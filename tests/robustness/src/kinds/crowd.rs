//! A kind whose tasks get more signals than one write settles, and reply to the last ones when they complete.

use std::time::Duration;

use tokio::time::sleep;
use windlass::{ActionKind, BoxError, Command, Message};

use super::Run;

/// The kind.
pub const CROWD: &str = "crowd";

/// How many of the signals get a reply.
const REPLIES: usize = 5;

impl Run {
    /// Takes signals for a while, and completes with the number of those that it replies to.
    pub(super) async fn crowd(self) -> Result<Message, BoxError> {
        let commands = self.task.commands();
        let mut taken = Vec::new();
        let mut over = std::pin::pin!(sleep(Duration::from_millis(self.job.ms)));
        loop {
            tokio::select! {
                biased;
                stop = self.task.stop_requested() => {
                    let message = self.stop(&stop);
                    return Ok(match message.kind() {
                        // With so many signals the command that asks for this may count as rejected.
                        ActionKind::Complete => message.with_data(&self.asks(self.job.total)),
                        _ => message,
                    });
                }
                () = &mut over => break,
                Some(command) = commands.next() => {
                    if let Command::Signal(signal) = command {
                        taken.push(signal);
                    }
                }
            }
        }
        let last = &taken[taken.len().saturating_sub(REPLIES)..];
        let replies = last.len() as u64;
        let kept = self.asks(self.job.total);
        let message = Message::complete_with(replies).with_data(&kept);
        let reply = |message: Message, signal| message.answer(signal, &replies);
        Ok(last.iter().fold(message, reply))
    }
}
