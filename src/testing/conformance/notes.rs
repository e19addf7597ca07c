//! Notes of commands: why each was sent.

use windlass_statemachine::{
    Author, Command, Message, Note, Outcome, StateKind, operation::SendCommand,
};

use super::{
    Harness,
    kit::{Kit, id, one, sending, settle},
    strangers::{elsewhere, export, import},
};
use crate::{
    Client,
    store::{ChangeKind, Transaction},
};

const APPLIED: Outcome = Outcome::Applied {
    from: StateKind::Runnable,
    to: StateKind::Paused,
};

fn noted(task: &str, command: &str, what: Command) -> SendCommand {
    sending(task, command, what).note(Note::new(format!("why {command}")).expect("a note"))
}

/// Returns the notes of the commands of a task, `-` for none.
async fn notes(kit: &Kit, task: &str) -> Vec<String> {
    let commands = kit.registry().commands(&id(task)).await.expect("commands");
    let note = |note: Option<Note>| note.map_or_else(|| "-".to_owned(), String::from);
    commands.into_iter().map(|sent| note(sent.note)).collect()
}

/// The note of a command is there while the command waits, when a node gets it, and with its outcome. So is its author.
pub async fn a_note_stays_with_its_command(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let ann = Client::new(&kit.store).on_behalf_of(Author::new("ann").expect("a name"));
    let sent = Transaction::new().send(noted("a", "c1", Command::Pause));
    one(kit.registry().apply(vec![ann.signed(sent)]).await).expect("sent");
    one(kit
        .registry()
        .send(vec![noted("a", "c2", Command::Run)])
        .await)
    .expect("sent");
    kit.send("a", "c3", Command::Kill).await;
    assert_eq!(notes(&kit, "a").await, ["why c1", "why c2", "-"]);

    let claimed = kit.claim(&node, "a").await;
    let first = &claimed.commands[0];
    assert_eq!(first.note.as_ref().map(Note::as_str), Some("why c1"));
    assert_eq!(first.by.as_ref().map(Author::as_str), Some("ann"));
    let mut write = kit.write(&claimed, &Message::pause());
    settle(&mut write, first.order, APPLIED);
    kit.try_write(&claimed, write).await.expect("a commit");
    assert_eq!(notes(&kit, "a").await, ["why c1", "why c2", "-"]);
    let record = kit
        .registry()
        .command(&super::kit::command_of("c1"))
        .await
        .expect("a command");
    assert_eq!(record.outcome, Some(APPLIED));
    assert_eq!(record.note.as_ref().map(Note::as_str), Some("why c1"));

    let history = ann.history("a", 100).await.expect("a history");
    let lines = history
        .into_iter()
        .filter(|change| matches!(change.what, ChangeKind::Commanded { .. }));
    let lines: Vec<_> = lines.map(|change| change.note.map(String::from)).collect();
    let expected = [Some("why c1".to_owned()), Some("why c2".to_owned()), None];
    assert_eq!(lines, expected);
}

/// A copy of a task has the notes of its commands.
pub async fn a_copy_has_the_notes(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let from = elsewhere().await;
    from.submit("a").await;
    one(from
        .registry()
        .send(vec![noted("a", "c1", Command::Pause)])
        .await)
    .expect("sent");
    from.send("a", "c2", Command::Run).await;
    import(&kit, export(&from, &[id("a")]).await).await;
    assert_eq!(notes(&kit, "a").await, ["why c1", "-"]);
}
