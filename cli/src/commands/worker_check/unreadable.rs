//! The scenario of values that a client may not be able to decode, beside others.

use serde_json::{Value, json};

use super::{
    desk::Desk,
    rules::{Rule, UNREADABLE},
    scenarios::sleeps,
    script::Script,
    task::End,
};

/// What stands for the number in a [`Value`], which cannot hold it.
const MARK: &str = "the integer of 5,000 digits";

/// Returns a body as it is sent, with the number in place of its mark.
pub(super) fn written(body: &Value) -> String {
    let text = body.to_string();
    match text.contains(MARK) {
        true => text.replace(&json!(MARK).to_string(), &number()),
        false => text,
    }
}

/// Returns a body as it was sent, with the mark in place of the number.
pub(super) fn marked(body: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(body) {
        Ok(text) => text
            .replace(&number(), &json!(MARK).to_string())
            .into_bytes(),
        Err(_) => body.to_owned(),
    }
}

fn number() -> String {
    "7".repeat(5_000)
}

/// Tasks with a number that many languages cannot hold: in the props, the data, a signal and an outcome, each beside tasks
/// without it. Further tasks follow.
#[derive(Default)]
pub(super) struct Unreadable;

/// The tasks of the first answer: the last one has nothing that cannot be read.
const FIRST: usize = 5;
/// The task that gets a signal while its handler runs.
const SIGNALLED: usize = FIRST;

impl Script for Unreadable {
    fn begin(&mut self, desk: &mut Desk) {
        desk.add(json!({"do": "complete", "number": [MARK]}));
        let with_data = desk.add(json!({"do": "complete"}));
        desk.tasks[with_data].data = Some(json!({"number": MARK}));
        let with_outcome = desk.add(json!({"do": "complete"}));
        let outcome = json!({"task": "other", "outcome": "completed", "novelty": MARK});
        desk.tasks[with_outcome].waited = Some(json!([outcome]));
        let with_signal = desk.add(json!({"do": "complete"}));
        desk.tasks[with_signal].signals_at_start = Some(json!([MARK]));
        desk.add(json!({"do": "complete", "keep": "readable"}));
        for props in [sleeps(2_000), sleeps(2_500), json!({"do": "complete"})] {
            let place = desk.add(props);
            desk.tasks[place].is_ready = false;
        }
    }

    fn look(&mut self, desk: &mut Desk) -> bool {
        let (first, later) = desk.tasks.split_at_mut(FIRST);
        if first.iter().all(|task| !task.is_live()) {
            for task in later {
                task.is_ready = true;
            }
        }
        if desk.takes_signals && desk.tasks[SIGNALLED].is_running() {
            desk.tasks[SIGNALLED]
                .signal
                .get_or_insert((json!(MARK), false));
        }
        if !desk.all_ended() {
            return false;
        }
        let findings: Vec<_> = (desk.tasks.iter().enumerate())
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
            desk.breaks(UNREADABLE, finding);
        }
        true
    }

    fn late(&self) -> (Rule, String) {
        let what = "an answer has a number of 5,000 digits, and it has not reported the end of each task of that answer";
        (UNREADABLE, what.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_sent_and_read_in_place_of_its_mark() {
        let body = json!({"claims": [{"props": [MARK, "other"]}]});
        let text = written(&body);
        assert!(
            text.contains(&format!("[{},\"other\"]", number())),
            "{text}"
        );
        let read: Value = serde_json::from_slice(&marked(text.as_bytes())).unwrap();
        assert_eq!(read, body);
    }
}
