//! What belongs to a task, and nothing else: the ranges of keys that go with it.
//!
//! Names of keys hold no `/` where one of ours ends. What lies deeper belongs to a namespace inside
//! this one, which earlier versions let be made (`/a/tasks` inside `/a`). A range leaves it out.

use etcd_client::KeyValue;
use windlass_statemachine::{NodeName, TaskId};

use super::{
    Inner,
    item::Item,
    keys::{FOLDERS, Keys, QUARANTINED, end_of, is_version},
    queued,
    read::Bundle,
    records::Entry,
};
use crate::store::Error;

/// From a key to before another one.
type Range = (Vec<u8>, Vec<u8>);

/// Keys that were found, and whether each belongs to what is to be deleted.
type Found = Vec<(Vec<u8>, bool)>;

/// The ranges that hold all keys with a prefix but these others; `keys` are those that are there.
fn ranges(prefix: &str, keys: &[(Vec<u8>, bool)]) -> Vec<Range> {
    if keys.iter().all(|(_, own)| *own) {
        return vec![(prefix.as_bytes().to_vec(), end_of(prefix))];
    }
    let runs = keys.chunk_by(|(_, one), (_, next)| one == next);
    let own = runs.filter_map(|run| match (run.first(), run.last()) {
        (Some((first, true)), Some((last, _))) => Some((first.clone(), [last, &[0][..]].concat())),
        _ => None,
    });
    own.collect()
}

fn is_folder(name: &str) -> bool {
    FOLDERS.contains(&name)
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

fn pairs(kvs: &[KeyValue]) -> impl Iterator<Item = Pair<'_>> {
    kvs.iter().map(|kv| (kv.key(), kv.value()))
}

/// What follows the prefix in the key, if it is one name.
fn name_of<'a>(key: &'a [u8], prefix: &str) -> Option<&'a str> {
    let name = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Whether this is no command of a task or a node: in a namespace `tasks/ID` or `nodes/NAME` inside
/// this one, `…/commands/X` says which task the command X was sent to. A command is an object.
pub(super) fn is_pointer(value: &[u8]) -> bool {
    serde_json::from_slice::<TaskId>(value).is_ok()
}

/// The keys and the ranges of what a live task has beside its envelope.
fn parts_of(keys: &Keys, id: &TaskId, bundle: &Bundle) -> (Vec<String>, Vec<Range>) {
    let mut single = vec![keys.owner(id), keys.props(id)];
    if bundle.queue.iter().any(|stored| stored.name.is_none()) {
        single.push(keys.slot(id));
    }
    let prefix = keys.queue(id);
    let own = bundle.queue.iter().filter_map(|stored| {
        let name = stored.name.as_deref()?;
        Some((keys.queued(id, name).into_bytes(), true))
    });
    let mut all: Found = own.collect();
    if all.is_empty() {
        return (single, Vec::new());
    }
    let others = bundle.others.iter().map(|key| (key.clone(), false));
    all.extend(others.filter(|(key, _)| key.starts_with(prefix.as_bytes())));
    all.sort();
    (single, ranges(&prefix, &all))
}

/// The names of the outcomes of a task, and the keys that were found beside them. In a namespace
/// `outcomes` inside this one, `outcomes/tasks/ID` is a task.
fn outcomes_of<'a>(
    found: impl Iterator<Item = Pair<'a>>,
    prefix: &str,
    id: &TaskId,
) -> (Vec<String>, Found) {
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for (key, value) in found {
        let name = name_of(key, prefix);
        let own = name.filter(|_| !is_folder(id.as_str()) || queued::has_outcome(value));
        all.push((key.to_vec(), own.is_some()));
        names.extend(own.map(str::to_owned));
    }
    (names, all)
}

/// Which of these keys are commands of a node.
fn node_commands_of<'a>(found: impl Iterator<Item = Pair<'a>>, prefix: &str) -> Found {
    let own = |(key, value)| name_of(key, prefix).is_some() && !is_pointer(value);
    found.map(|pair| (pair.0.to_vec(), own(pair))).collect()
}

/// Which of these keys are entries of the history of a task. In a namespace `history` inside this
/// one, `history/tasks/ID` is a task.
fn history_of<'a>(found: impl Iterator<Item = Pair<'a>>, prefix: &str) -> Found {
    let is_entry = |value| serde_json::from_slice::<Entry>(value).is_ok();
    let is_ours = |name: &str| is_version(name) || name.starts_with(QUARANTINED);
    let own = |(key, value)| name_of(key, prefix).is_some_and(is_ours) && is_entry(value);
    found.map(|pair| (pair.0.to_vec(), own(pair))).collect()
}

impl Item {
    /// Deletes what a live task has beside its envelope. `bundle` is the task as it was read, and the
    /// item compares that no command was sent since.
    pub(super) fn delete_parts(&mut self, keys: &Keys, id: &TaskId, bundle: &Bundle) {
        let (single, ranges) = parts_of(keys, id, bundle);
        for key in &single {
            self.delete(key);
        }
        self.delete_ranges(ranges);
    }

    fn delete_ranges(&mut self, ranges: Vec<Range>) {
        for (from, to) in ranges {
            self.delete_range(&String::from_utf8_lossy(&from), to);
        }
    }
}

impl Inner {
    /// Adds that the outcomes of a task go. Answers the names of their commands.
    pub(super) async fn delete_outcomes(
        &self,
        item: &mut Item,
        id: &TaskId,
    ) -> Result<Vec<String>, Error> {
        let prefix = self.keys.outcomes(id);
        let read = self.get_all(&prefix).await;
        let (kvs, _) = read.map_err(|fault| fault.into_error("read the commands of a task"))?;
        let (names, all) = outcomes_of(pairs(&kvs), &prefix, id);
        item.delete_ranges(ranges(&prefix, &all));
        Ok(names)
    }

    /// Adds that the commands go which wait for a node of this name.
    pub(super) async fn delete_node_commands(
        &self,
        item: &mut Item,
        node: &NodeName,
    ) -> Result<(), Error> {
        let prefix = self.keys.node_commands(node);
        let read = self.get_all(&prefix).await;
        let (kvs, _) = read.map_err(|fault| fault.into_error("read the commands of a node"))?;
        item.delete_ranges(ranges(&prefix, &node_commands_of(pairs(&kvs), &prefix)));
        Ok(())
    }

    /// Adds that the history of a task goes.
    pub(super) async fn delete_history(&self, item: &mut Item, id: &TaskId) -> Result<(), Error> {
        let prefix = self.keys.histories(id);
        if !is_folder(id.as_str()) {
            // Versions are numbers, and no folder begins with a digit or is a quarantine.
            item.delete_range(&format!("{prefix}0"), format!("{prefix}:"));
            item.delete_range(
                &format!("{prefix}{QUARANTINED}"),
                format!("{prefix}{QUARANTINED}~"),
            );
            return Ok(());
        }
        let read = self.get_all(&prefix).await;
        let (kvs, _) = read.map_err(|fault| fault.into_error("read the history of a task"))?;
        item.delete_ranges(ranges(&prefix, &history_of(pairs(&kvs), &prefix)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{Command, Outcome};

    use super::*;
    use crate::store::etcd::queued::Stored;

    #[test]
    fn a_range_leaves_out_what_belongs_to_others() {
        let of = |keys: &[(&str, bool)]| -> Vec<(String, String)> {
            let keys: Vec<_> = keys
                .iter()
                .map(|(k, own)| (k.as_bytes().to_vec(), *own))
                .collect();
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let ranges = ranges("p/", &keys).into_iter();
            ranges.map(|(from, to)| (text(from), text(to))).collect()
        };
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(of(&[]), [pair("p/", "p0")]);
        assert_eq!(of(&[("p/a", true), ("p/b", true)]), [pair("p/", "p0")]);
        assert_eq!(of(&[("p/a/x", false)]), []);
        let keys = [
            ("p/a", true),
            ("p/a/x", false),
            ("p/b", true),
            ("p/c", true),
            ("p/c/x", false),
        ];
        assert_eq!(of(&keys), [pair("p/a", "p/a\0"), pair("p/b", "p/c\0")]);
    }
    fn stored(name: Option<&str>) -> Stored {
        Stored {
            name: name.map(str::to_owned),
            order: 1,
            revision: 1,
            text: String::new(),
            command: Ok(Command::Kill),
            sent_at: Timestamp::UNIX_EPOCH,
            became: None,
        }
    }

    fn found<'a>(pairs: &'a [(&str, &str)]) -> impl Iterator<Item = Pair<'a>> {
        let bytes = |pair: &'a (&str, &str)| (pair.0.as_bytes(), pair.1.as_bytes());
        pairs.iter().map(bytes)
    }

    fn own(found: Found) -> Vec<bool> {
        found.into_iter().map(|(_, own)| own).collect()
    }

    /// A live task `t` with these commands; none stands for the single slot.
    fn live(names: &[Option<&str>], others: &[&str]) -> Bundle {
        Bundle {
            queue: names.iter().map(|name| stored(*name)).collect(),
            others: others.iter().map(|key| key.as_bytes().to_vec()).collect(),
            ..Bundle::default()
        }
    }

    #[test]
    fn the_parts_of_a_live_task_are_its_owner_its_props_and_its_commands() {
        let keys = Keys::new("ns");
        let id: TaskId = "t".parse().unwrap();
        let beside = vec![keys.owner(&id), keys.props(&id)];
        let with_slot = [&beside[..], &[keys.slot(&id)]].concat();
        let queue = keys.queue(&id);
        let whole = vec![(queue.clone().into_bytes(), end_of(&queue))];
        for (names, single, ranges) in [
            (&[][..], &beside, vec![]),
            (&[None], &with_slot, vec![]),
            (&[Some("a"), Some("b")], &beside, whole.clone()),
            (&[None, Some("a")], &with_slot, whole),
        ] {
            let bundle = live(names, &[]);
            let mut item = Item::new("t");
            item.delete_parts(&keys, &id, &bundle);
            assert_eq!(item.operations(), single.len() + ranges.len());
            let parts = parts_of(&keys, &id, &bundle);
            assert_eq!(parts, (single.clone(), ranges), "{names:?}");
        }
    }

    #[test]
    fn a_task_inside_the_queue_of_another_is_left() {
        let keys = Keys::new("ns");
        let id: TaskId = "t".parse().unwrap();
        let (own, inner) = (keys.queued(&id, "a"), keys.queued(&id, "a/b"));
        let elsewhere = format!("{}0/x", keys.task(&id));
        let (_, ranges) = parts_of(&keys, &id, &live(&[Some("a")], &[&inner, &elsewhere]));
        let after = [own.as_bytes(), &[0]].concat();
        assert_eq!(ranges, [(own.into_bytes(), after)]);
        let (_, ranges) = parts_of(&keys, &id, &live(&[Some("a")], &[&elsewhere]));
        assert_eq!(ranges[0].1, end_of(&keys.queue(&id)), "all of the queue");
    }

    #[test]
    fn outcomes_have_one_name_and_in_a_folder_an_outcome() {
        let outcome = Outcome::Rejected {
            reason: "no".into(),
        };
        let ended = stored(Some("c")).write_outcome(outcome).unwrap();
        let kvs = [
            ("p/c", ended.as_str()),
            ("p/d", r#"{"a":1}"#),
            ("p/c/x", "1"),
            ("p/", "1"),
            ("q/c", "1"),
        ];
        let (names, all) = outcomes_of(found(&kvs), "p/", &"t".parse().unwrap());
        assert_eq!(names, ["c", "d"]);
        assert_eq!(own(all), [true, true, false, false, false]);
        let (names, all) = outcomes_of(found(&kvs), "p/", &"tasks".parse().unwrap());
        assert_eq!(names, ["c"]);
        assert_eq!(own(all), [true, false, false, false, false]);
    }

    #[test]
    fn commands_of_a_node_are_no_pointers_to_tasks() {
        let kvs = [
            ("p/1", r#"{"freeze":{}}"#),
            ("p/2", r#""a-task""#),
            ("p/3", r#""not / a / name""#),
            ("p/4/x", r#"{"freeze":{}}"#),
        ];
        assert_eq!(
            own(node_commands_of(found(&kvs), "p/")),
            [true, false, true, false]
        );
    }

    #[test]
    fn entries_of_a_history_have_a_version_and_can_be_read() {
        let entry = Entry::write(Timestamp::UNIX_EPOCH, 0, &[]).unwrap();
        let kvs = [
            ("p/000000000001", entry.as_str()),
            ("p/000000000002", "[]]"),
            ("p/tasks", entry.as_str()),
            ("p/quarantined-1", entry.as_str()),
            ("p/000000000003/x", entry.as_str()),
        ];
        assert_eq!(
            own(history_of(found(&kvs), "p/")),
            [true, false, false, true, false]
        );
    }
}
