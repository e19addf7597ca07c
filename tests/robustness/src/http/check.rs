//! The checkers of what clients were promised by HTTP.

use std::collections::{BTreeMap, BTreeSet};

use super::deeds::{Deed, Promised};

/// A task as it is stored at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its id.
    pub id: String,
    /// The deed that its label names.
    pub deed: u64,
    /// Whether it has ended.
    pub has_ended: bool,
    /// How many commands it got.
    pub commands: usize,
}

/// Checks that each acknowledged task exists and has ended, and that no deed was done twice.
pub fn tasks(deeds: &BTreeMap<u64, Deed>, promised: &Promised, stored: &[Stored]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut by_deed: BTreeMap<u64, Vec<&Stored>> = BTreeMap::new();
    for task in stored {
        by_deed.entry(task.deed).or_default().push(task);
        if !task.has_ended {
            wrong.push(format!("task {} has not ended", task.id));
        }
    }
    for (number, deed) in deeds {
        let made = by_deed.remove(number).unwrap_or_default();
        let ids: BTreeSet<&str> = made.iter().map(|task| task.id.as_str()).collect();
        if made.len() != deed.tasks() {
            let expected = deed.tasks();
            wrong.push(format!(
                "deed {number} ({deed:?}) made {ids:?}, not {expected} tasks"
            ));
        }
        let acknowledged = promised.get(number).into_iter().flatten();
        for id in acknowledged.filter(|id| !ids.contains(id.as_str())) {
            wrong.push(format!(
                "task {id} of deed {number} was acknowledged and is lost"
            ));
        }
        let commands: usize = made.iter().map(|task| task.commands).sum();
        if commands != usize::from(*deed == Deed::Command) {
            wrong.push(format!(
                "the tasks of deed {number} ({deed:?}) have {commands} commands"
            ));
        }
    }
    let strange = by_deed.into_keys();
    wrong.extend(strange.map(|number| format!("no deed has the number {number}")));
    wrong
}

/// Checks that a stream has brought exactly the changes of the histories, in order.
pub fn stream(brought: &[u64], histories: &BTreeSet<u64>) -> Vec<String> {
    let mut wrong = Vec::new();
    for two in brought.windows(2) {
        if let [one, next] = two
            && next <= one
        {
            wrong.push(format!("change {next} came after {one}"));
        }
    }
    let brought: BTreeSet<u64> = brought.iter().copied().collect();
    let lost = histories.difference(&brought);
    wrong.extend(lost.map(|number| format!("change {number} did not come")));
    let strange = brought.difference(histories);
    wrong.extend(strange.map(|number| format!("change {number} is in no history")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(id: &str, deed: u64) -> Stored {
        Stored {
            id: id.to_owned(),
            deed,
            has_ended: true,
            commands: 0,
        }
    }

    #[test]
    fn what_was_acknowledged_has_to_be_there_once() {
        let deeds = BTreeMap::from([(1, Deed::Keyed), (2, Deed::Transaction)]);
        let promised = Promised::from([(1, vec!["a".into()]), (2, vec!["b".into(), "c".into()])]);
        let good = [stored("a", 1), stored("b", 2), stored("c", 2)];
        assert_eq!(tasks(&deeds, &promised, &good), [""; 0]);
        let found = |change: &dyn Fn(&mut Vec<Stored>)| {
            let mut stored = good.to_vec();
            change(&mut stored);
            tasks(&deeds, &promised, &stored).join("; ")
        };
        assert!(found(&|all| drop(all.remove(0))).contains("task a of deed 1"));
        assert!(found(&|all| all.push(stored("d", 1))).contains("deed 1 (Keyed) made"));
        assert!(found(&|all| all[1].has_ended = false).contains("b has not ended"));
        assert!(found(&|all| all[1].commands = 1).contains("have 1 commands"));
        assert!(found(&|all| all[1].deed = 7).contains("no deed has the number 7"));
    }

    #[test]
    fn a_stream_has_no_gap_and_no_repetition() {
        let all = BTreeSet::from([1, 2, 4]);
        assert_eq!(stream(&[1, 2, 4], &all), [""; 0]);
        assert_eq!(stream(&[1, 4], &all), ["change 2 did not come"]);
        assert_eq!(stream(&[1, 2, 2, 4], &all), ["change 2 came after 2"]);
        assert_eq!(stream(&[1, 4, 2], &all), ["change 2 came after 4"]);
        assert_eq!(stream(&[1, 2, 3, 4], &all), ["change 3 is in no history"]);
    }
}
