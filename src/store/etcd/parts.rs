//! What belongs to a task, and nothing else: the ranges of keys that go with it.
//!
//! Names of keys hold no `/` where one of ours ends. What lies deeper belongs to a namespace inside
//! this one, which earlier versions let be made (`/a/tasks` inside `/a`). A range leaves it out.

use etcd_client::KeyValue;
use windlass_statemachine::{NodeName, TaskId};

use super::{
    Inner,
    item::Item,
    keys::{FOLDERS, QUARANTINED, end_of, is_version},
    queued::Stored,
    read::Bundle,
    records::{self, Entry},
};
use crate::store::Error;

/// The ranges that hold all keys with a prefix but these others; `keys` are those that are there.
fn ranges(prefix: &str, keys: &[(Vec<u8>, bool)]) -> Vec<(Vec<u8>, Vec<u8>)> {
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

/// What follows the prefix in the key, if it is one name.
fn name_of<'a>(kv: &'a KeyValue, prefix: &str) -> Option<&'a str> {
    let name = std::str::from_utf8(kv.key()).ok()?.strip_prefix(prefix)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Whether this is no command of a task or a node: in a namespace `tasks/ID` or `nodes/NAME` inside
/// this one, `…/commands/X` says which task the command X was sent to. A command is an object.
pub(super) fn is_pointer(kv: &KeyValue) -> bool {
    kv.value().first() == Some(&b'"') && records::parse::<TaskId>(kv).is_ok()
}

impl Item {
    /// Deletes what a live task has beside its envelope. `bundle` is the task as it was read, and the
    /// item compares that no command was sent since.
    pub(super) fn delete_parts(&mut self, inner: &Inner, id: &TaskId, bundle: &Bundle) {
        let keys = &inner.keys;
        self.delete(&keys.owner(id));
        self.delete(&keys.props(id));
        if bundle.queue.iter().any(|stored| stored.name.is_none()) {
            self.delete(&keys.slot(id));
        }
        let prefix = keys.queue(id);
        let own = bundle.queue.iter().filter_map(|stored| {
            let name = stored.name.as_deref()?;
            Some((keys.queued(id, name).into_bytes(), true))
        });
        let mut all: Vec<_> = own.collect();
        if all.is_empty() {
            return;
        }
        let others = bundle.others.iter().map(|key| (key.clone(), false));
        let others = others.filter(|(key, _)| key.starts_with(prefix.as_bytes()));
        all.extend(others);
        all.sort();
        self.delete_ranges(&prefix, &all);
    }

    fn delete_ranges(&mut self, prefix: &str, keys: &[(Vec<u8>, bool)]) {
        for (from, to) in ranges(prefix, keys) {
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
        let (mut names, mut all) = (Vec::new(), Vec::new());
        for kv in &kvs {
            // In a namespace `outcomes` inside this one, `outcomes/tasks/ID` is a task.
            let told = name_of(kv, &prefix).map(|name| (name, Stored::read(Some(name), kv)));
            let own = told.filter(|(_, stored)| !is_folder(id.as_str()) || stored.became.is_some());
            all.push((kv.key().to_vec(), own.is_some()));
            names.extend(own.map(|(name, _)| name.to_owned()));
        }
        item.delete_ranges(&prefix, &all);
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
        let own = |kv: &KeyValue| name_of(kv, &prefix).is_some() && !is_pointer(kv);
        let all: Vec<_> = kvs.iter().map(|kv| (kv.key().to_vec(), own(kv))).collect();
        item.delete_ranges(&prefix, &all);
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
        // In a namespace `history` inside this one, `history/tasks/ID` is a task.
        let read = self.get_all(&prefix).await;
        let (kvs, _) = read.map_err(|fault| fault.into_error("read the history of a task"))?;
        let own = |kv: &KeyValue| {
            let is_ours = |name: &str| is_version(name) || name.starts_with(QUARANTINED);
            name_of(kv, &prefix).is_some_and(is_ours) && records::parse::<Entry>(kv).is_ok()
        };
        let all: Vec<_> = kvs.iter().map(|kv| (kv.key().to_vec(), own(kv))).collect();
        item.delete_ranges(&prefix, &all);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
