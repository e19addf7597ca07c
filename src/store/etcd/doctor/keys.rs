//! Examines the keys of a namespace: keys of tasks that do not exist, and unknown keys.

use std::collections::{BTreeMap, HashSet};

use windlass_statemachine::{CommandId, NodeName, TaskId};

use crate::store::{
    Advice, Error, LogPart, Remedy,
    etcd::{
        read::Reader,
        schema::{
            Entry, Envelope, KeyValue, Owner, Parked, Part, Stored, end_of,
            ended::End,
            json::parse,
            keys::{LOG, PROPS_APART},
            namespace::{FOLDERS, nested},
            ranges::is_pointer,
            records::read_state,
        },
    },
    examine::{Finding, Strays, Verdict, circle::Waiters, log_parts},
};

pub(crate) const OPERATION: &str = "examine the store";

/// All keys of a namespace, by type.
#[derive(Default)]
pub(crate) struct Namespace {
    live: HashSet<TaskId>,
    ended: HashSet<TaskId>,
    pub(crate) owners: Vec<KeyValue>,
    pub(crate) registrations: Vec<KeyValue>,
    /// Tasks whose envelope or state cannot be read, or that are quarantined, with the reason. A task may
    /// occur more than once.
    unreadable: Vec<(TaskId, String)>,
    malformed: Strays,
    /// Namespaces inside the keys of this one, and how many keys each has.
    nested: BTreeMap<String, u64>,
    pub(crate) waiters: Waiters,
    /// States of tasks.
    states: Vec<TaskId>,
    /// Keys that belong to a task: those of commands, and others.
    commands: Vec<Belongs>,
    parts: Vec<Belongs>,
    /// The parts of logs that cannot be read, without their values, each with its name.
    damaged_logs: Vec<(KeyValue, TaskId, String)>,
}

/// A key that belongs to a task, which may not exist.
pub(super) struct Belongs {
    pub(super) key: Vec<u8>,
    /// When it was last written.
    pub(super) written: i64,
    pub(super) id: TaskId,
    /// Whether only a live task may have it.
    live: bool,
}

impl Belongs {
    fn new(kv: &KeyValue, id: TaskId, live: bool) -> Self {
        Self {
            key: kv.key().to_vec(),
            written: kv.mod_revision(),
            id,
            live,
        }
    }
}

/// Examines the keys of a namespace.
pub(crate) struct KeyCheck {
    pub(crate) reader: Reader,
}

impl KeyCheck {
    pub(crate) async fn read_namespace(&self) -> Result<Namespace, Error> {
        let root = self.reader.keys.root().to_owned();
        let mut namespace = Namespace::default();
        let mut take = |kv| self.sort_in(&mut namespace, kv);
        let scanned = (self.reader.link)
            .scan(0, &root, &end_of(&root), &mut take)
            .await;
        scanned.map_err(|fault| fault.into_error("list the tasks"))?;
        Ok(namespace)
    }

    fn sort_in(&self, to: &mut Namespace, kv: KeyValue) {
        let key = kv.key().to_vec();
        let text = self.reader.keys.strip(&key, "").unwrap_or_default();
        let (folder, rest) = text.split_once('/').unwrap_or((text, ""));
        // `ID`, or `ID/…`.
        let (name, more) = rest.split_once('/').unwrap_or((rest, ""));
        let id = TaskId::new(name).ok();
        let mut inner = nested(text);
        if FOLDERS.contains(&name) && inner.is_none() {
            // The form fits both namespaces. The value decides.
            let own = match folder {
                "history" => Entry::is_readable(&kv),
                "outcomes" => Stored::read(Some(more), &kv).became.is_some(),
                _ => true,
            };
            inner = (!own).then(|| folder.to_owned());
        }
        if matches!(folder, "tasks" | "nodes") && more.starts_with("commands/") && is_pointer(&kv) {
            inner = Some(format!("{folder}/{name}"));
        }
        if let Some(inner) = inner {
            *to.nested.entry(inner).or_default() += 1;
            return;
        }
        let known = match (folder, id) {
            ("tasks", Some(id)) => return self.sort_task(to, id, kv),
            ("finished", Some(id)) if more.is_empty() => {
                if let Err(reason) = Envelope::read(&kv) {
                    to.unreadable.push((id.clone(), reason));
                }
                to.ended.insert(id);
                true
            }
            ("state", Some(id)) if more.is_empty() => {
                match read_state(&kv, &self.reader.fences) {
                    Err(reason) => to.unreadable.push((id.clone(), reason)),
                    Ok((state, _)) if state.is_waiting() => {
                        let waits = state.waits.map(|waits| waits.tasks);
                        to.waiters.insert(id.clone(), waits.unwrap_or_default());
                    }
                    Ok(_) => {}
                }
                to.states.push(id);
                true
            }
            ("parked", Some(id)) if more.is_empty() => {
                let quarantined = parse::<Parked>(&kv).ok().and_then(|p| p.quarantined);
                if let Some(reason) = quarantined {
                    to.unreadable.push((id.clone(), reason));
                }
                to.parts.push(Belongs::new(&kv, id, true));
                true
            }
            ("history", Some(id)) if !more.is_empty() => {
                to.parts.push(Belongs::new(&kv, id, false));
                true
            }
            ("outcomes", Some(id)) if !more.is_empty() => {
                to.commands.push(Belongs::new(&kv, id, false));
                true
            }
            ("commands", _) if CommandId::new(name).is_ok() && more.is_empty() => {
                if let Ok(id) = parse::<TaskId>(&kv) {
                    to.commands.push(Belongs::new(&kv, id, false));
                }
                true
            }
            ("nodes", _) => {
                if more == "_metafora" {
                    to.registrations.push(kv);
                }
                NodeName::new(name).is_ok()
                    && (matches!(more, "_metafora" | "speaker") || more.starts_with("commands/"))
            }
            ("answers", _) => name.parse::<u64>().is_ok(),
            ("meta", _) => {
                let props = self.reader.keys.strip(&key, PROPS_APART);
                if let Some(id) = props.and_then(|id| TaskId::new(id).ok()) {
                    to.parts.push(Belongs::new(&kv, id, true));
                }
                self.sort_log(to, &kv);
                if let Some(end) = End::read(&self.reader.keys, &kv) {
                    to.parts.push(Belongs::new(&kv, end.id, false));
                }
                self.reader.keys.is_meta(&key)
            }
            _ => false,
        };
        if !known {
            to.malformed.add(String::from_utf8_lossy(&key).into_owned());
        }
    }

    /// Sorts in a part of a log.
    fn sort_log(&self, to: &mut Namespace, kv: &KeyValue) {
        let name = self.reader.keys.strip(kv.key(), LOG);
        let id = name.and_then(|name| name.split_once('/'));
        let Some(id) = id.and_then(|(id, _)| TaskId::new(id).ok()) else {
            return;
        };
        to.parts.push(Belongs::new(kv, id.clone(), false));
        let place = self.reader.keys.log_place(&id, kv.key());
        if let Some(place) = place
            && let Err(reason) = parse::<LogPart>(kv)
        {
            let name = format!("part {} of '{id}' ({reason})", place.part);
            let value = Vec::new();
            let kv = KeyValue {
                value,
                ..kv.clone()
            };
            to.damaged_logs.push((kv, id, name));
        }
    }

    fn sort_task(&self, to: &mut Namespace, id: TaskId, kv: KeyValue) {
        let key = kv.key().to_vec();
        match self.reader.keys.split(&key).map(|(_, part)| part) {
            Some(Part::Task) => {
                if let Err(reason) = Envelope::read(&kv) {
                    to.unreadable.push((id.clone(), reason));
                }
                to.live.insert(id);
            }
            Some(Part::Owner) => to.owners.push(kv),
            Some(Part::Props) => to.parts.push(Belongs::new(&kv, id, true)),
            Some(Part::Slot | Part::Command(_)) => to.commands.push(Belongs::new(&kv, id, true)),
            None => to.malformed.add(String::from_utf8_lossy(&key).into_owned()),
        }
    }

    pub(crate) async fn examine_keys(
        &self,
        namespace: &Namespace,
        repair: bool,
    ) -> Result<Vec<Finding>, Error> {
        let exists = |id: &TaskId, live: bool| {
            namespace.live.contains(id) || (!live && namespace.ended.contains(id))
        };
        fn of_no_task(keys: &[Belongs], exists: impl Fn(&TaskId, bool) -> bool) -> Vec<&Belongs> {
            let lost = keys.iter().filter(|key| !exists(&key.id, key.live));
            lost.collect()
        }
        let (commands, parts) = (
            of_no_task(&namespace.commands, exists),
            of_no_task(&namespace.parts, exists),
        );
        let states = namespace.states.iter().filter(|id| !exists(id, false));
        let states: Strays = states.map(ToString::to_string).collect();
        // A state without a task is reported as such.
        let unreadable = namespace.unreadable.iter();
        let unreadable = unreadable.filter(|(id, _)| exists(id, false));
        // A task counts once, even if both its state and its mark report it.
        let by_task: BTreeMap<_, _> = unreadable.map(|(id, reason)| (id, reason)).collect();
        let quarantined = by_task
            .iter()
            .map(|(id, reason)| format!("{id} ({reason})"));
        let quarantined: Strays = quarantined.collect();
        let (orphans, ghosts) = self.claims_of_no_task(namespace);
        // Those of tasks that do not exist are reported as such.
        let damaged = namespace.damaged_logs.iter();
        let damaged = damaged.filter(|(_, id, _)| exists(id, false));
        let damaged: Vec<_> = damaged.collect();
        let damaged_names: Strays = damaged.iter().map(|(_, _, name)| name.clone()).collect();
        let damaged: Vec<_> = damaged.iter().map(|(kv, _, _)| kv).collect();
        let mut repaired = [0; 5];
        if repair {
            repaired = [
                self.delete_lost(&commands, &namespace.ended).await?,
                self.delete_lost(&parts, &namespace.ended).await?,
                self.delete_unchanged(&orphans, true).await?,
                self.delete_unchanged(&ghosts, false).await?,
                self.delete_unchanged(&damaged, false).await?,
            ];
        }
        let names = |keys: &[&Belongs]| -> Strays {
            let names = keys
                .iter()
                .map(|of| String::from_utf8_lossy(&of.key).into_owned());
            names.collect()
        };
        let of = |owners: &[&KeyValue]| -> Strays {
            let names = owners
                .iter()
                .map(|kv| String::from_utf8_lossy(kv.key()).into_owned());
            names.collect()
        };
        let fix = Advice::new("a repair deletes them", Remedy::Repair);
        let error = |what| (Verdict::Error, what);
        let warning = |what| (Verdict::Warning, what);
        let nested = namespace.nested.iter();
        let nested: Strays = nested
            .map(|(name, keys)| format!("{}{name} ({keys} keys)", self.reader.keys.root()))
            .collect();
        Ok(vec![
            Finding::none_of(
                "namespaces",
                error("namespaces inside the keys of this one"),
                &nested,
                0,
                "Metafora lets them be made, and windlass does not open them: use a namespace of \
                 another name for these tasks, then delete the keys",
            ),
            Finding::none_of(
                "quarantined",
                warning("records that cannot be read"),
                &quarantined,
                0,
                Advice::new(
                    "a list shows why; a retry reads them again",
                    Remedy::ReadQuarantined,
                ),
            ),
            Finding::none_of(
                "commands",
                error("keys of commands for tasks that do not exist"),
                &names(&commands),
                repaired[0],
                fix,
            ),
            Finding::none_of(
                "parts",
                warning("keys of tasks that do not exist"),
                &names(&parts),
                repaired[1],
                fix,
            ),
            Finding::none_of(
                "owners",
                error("claims of tasks that do not exist"),
                &of(&orphans),
                repaired[2],
                fix,
            ),
            Finding::none_of(
                "claims",
                error("claims without a lease or a live node"),
                &of(&ghosts),
                repaired[3],
                Advice::new(
                    "these claims never expire: a repair deletes them",
                    Remedy::Repair,
                ),
            ),
            log_parts::finding(&damaged_names, repaired[4]),
            Finding::none_of(
                "states",
                warning("states without task"),
                &states,
                0,
                "nodes of Metafora leave them; delete those keys (state/ID) if they are not needed",
            ),
            Finding::none_of(
                "keys",
                warning("unknown keys"),
                &namespace.malformed,
                0,
                "another program writes into this namespace: give each program its own",
            ),
        ])
    }

    /// Returns the claims of tasks that do not exist, and the claims without a lease whose nodes do
    /// not exist.
    fn claims_of_no_task<'n>(
        &self,
        namespace: &'n Namespace,
    ) -> (Vec<&'n KeyValue>, Vec<&'n KeyValue>) {
        let nodes: HashSet<&str> = namespace
            .registrations
            .iter()
            .filter_map(|kv| {
                self.reader
                    .keys
                    .strip(kv.key(), "nodes/")?
                    .strip_suffix("/_metafora")
            })
            .collect();
        let (mut orphans, mut ghosts) = (Vec::new(), Vec::new());
        for kv in &namespace.owners {
            let id = self
                .reader
                .keys
                .split(kv.key())
                .and_then(|(id, _)| TaskId::new(id).ok());
            let owner = parse::<Owner>(kv).ok();
            if !id.is_some_and(|id| namespace.live.contains(&id)) {
                orphans.push(kv);
            } else if kv.lease() == 0
                && owner.is_none_or(|owner| !nodes.contains(owner.node.as_str()))
            {
                ghosts.push(kv);
            }
        }
        (orphans, ghosts)
    }
}
