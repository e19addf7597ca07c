//! The scenario of values that a client may not be able to decode, beside others.

use serde_json::json;

use super::{
    long_number::MARK,
    rules::{Rule, UNREADABLE},
    scenarios::sleeps,
    script::Script,
    stand_in_store::StandInStore,
    task::End,
};

/// Tasks with a number that many languages cannot hold: in the props, the data, a signal and an outcome, each beside tasks
/// without it. Further tasks follow.
#[derive(Default)]
pub(super) struct Unreadable;

/// The tasks of the first answer: the last one has nothing that cannot be read.
const FIRST: usize = 5;
/// The task that gets a signal while its handler runs.
const SIGNALLED: usize = FIRST;

impl Script for Unreadable {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(json!({"do": "complete", "number": [MARK]}));
        let with_data = store.add(json!({"do": "complete"}));
        store.tasks[with_data].data = Some(json!({"number": MARK}));
        let with_outcome = store.add(json!({"do": "complete"}));
        let outcome = json!({"task": "other", "outcome": "completed", "novelty": MARK});
        store.tasks[with_outcome].waited = Some(json!([outcome]));
        let with_signal = store.add(json!({"do": "complete"}));
        store.tasks[with_signal].signals_at_start = Some(json!([MARK]));
        store.add(json!({"do": "complete", "keep": "readable"}));
        for props in [sleeps(2_000), sleeps(2_500), json!({"do": "complete"})] {
            let place = store.add(props);
            store.tasks[place].is_ready = false;
        }
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        let (first, later) = store.tasks.split_at_mut(FIRST);
        if first.iter().all(|task| !task.is_live()) {
            for task in later {
                task.is_ready = true;
            }
        }
        if store.takes_signals && store.tasks[SIGNALLED].is_running() {
            store.tasks[SIGNALLED]
                .signal
                .get_or_insert((json!(MARK), false));
        }
        if !store.all_ended() {
            return false;
        }
        let findings: Vec<_> = (store.tasks.iter().enumerate())
            .filter_map(|(place, task)| {
                let is_clean = place == FIRST - 1 || place > SIGNALLED;
                let problem = match &task.end {
                    Some(End::Returned(message)) => match message["message"].as_str() {
                        Some("complete") => return None,
                        Some("error") if is_clean => {
                            "failed, although all of its values can be read"
                        }
                        Some("error") if message["retry"] == json!(false) => {
                            "failed for good; a value that cannot be read is a failed attempt"
                        }
                        Some("error") => return None,
                        _ => "returned neither complete nor error",
                    },
                    _ => "was aborted; report the message error",
                };
                Some(format!("the run of task {} {problem}", task.id))
            })
            .collect();
        for finding in findings {
            store.breaks(UNREADABLE, finding);
        }
        true
    }

    fn late(&self) -> (Rule, String) {
        let what = "an answer has a number of 5,000 digits, and it has not reported the end of each task of that answer";
        (UNREADABLE, what.to_owned())
    }
}
