//! Checks each request by the rules that hold in every scenario.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::workers::protocol::{Exchange, Leave, Register, ReportItems};

use super::{
    rules::{AGAIN, FORM, HELD, LOST, LOST_REPORT, NUMBER, SECRET, SEQ, START, WAIT as WAIT_RULE},
    stand_in_store::{Ask, Endpoint, StandInStore, WAIT},
    task::{End, Task},
};

/// How long a request may be under way that was sent before the client knew better.
const UNDER_WAY: Duration = Duration::from_secs(1);

fn is_past(moment: Option<Instant>) -> bool {
    moment.is_some_and(|at| at.elapsed() > UNDER_WAY)
}

/// Checks the form of a request.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn form(endpoint: Endpoint, body: &Value) -> Result<(), String> {
    let body = body.to_string();
    let read = match endpoint {
        Endpoint::Register => serde_json::from_str::<Register>(&body).map(drop),
        Endpoint::Exchange => serde_json::from_str::<Exchange>(&body).map(drop),
        Endpoint::Leave => serde_json::from_str::<Leave>(&body).map(drop),
        Endpoint::Report => match serde_json::from_str::<ReportItems>(&body) {
            Err(error) => Err(error),
            Ok(report) => {
                for item in &report.items {
                    item.what().map_err(|e| e.to_string())?;
                }
                Ok(())
            }
        },
    };
    read.map_err(|e| format!("{endpoint:?}: {e}"))
}

impl StandInStore {
    /// Checks a request by the rules that hold in every scenario.
    pub(super) fn check(&mut self, ask: &Ask) {
        if let Err(what) = form(ask.endpoint, &ask.body) {
            self.breaks(FORM, what);
        }
        if ask.endpoint == Endpoint::Register {
            return;
        }
        if let Some((_, secret)) = &self.lease
            && ask.body["secret"] != json!(secret)
        {
            self.breaks(SECRET, "a request has another secret than the registration");
        }
        match ask.endpoint {
            Endpoint::Exchange => {
                self.check_seq(ask);
                self.check_wait(ask);
                self.check_held(ask);
            }
            Endpoint::Report => {
                self.check_seq(ask);
                for item in ask.list("items") {
                    self.check_item(ask, item);
                }
            }
            Endpoint::Register | Endpoint::Leave => {}
        }
    }

    fn check_seq(&mut self, ask: &Ask) {
        if self.lease.is_none() {
            return;
        }
        let (seq, settled) = (ask.number("seq"), ask.number("settled"));
        // Two requests that are sent at once may arrive in either order.
        let answered = |(of, at): (&u64, &Option<Instant>)| is_past(*at).then_some(*of);
        let last = self.seqs.iter().filter_map(answered).max().unwrap_or(0);
        if self.seqs.contains_key(&seq) {
            self.breaks(SEQ, format!("two requests have seq {seq}"));
        } else if seq <= last {
            self.breaks(
                SEQ,
                format!("seq {seq} comes after seq {last} was answered"),
            );
        } else if settled >= seq {
            self.breaks(SEQ, format!("request {seq} says that {settled} is settled"));
        }
        self.seqs.entry(seq).or_insert(None);
    }

    fn check_wait(&mut self, ask: &Ask) {
        let (wait, most) = (ask.number("wait_ms"), WAIT.as_millis() as u64);
        if wait > most {
            let what =
                format!("an exchange asks for a wait of {wait} ms; at most {most} are allowed");
            self.breaks(WAIT_RULE, what);
        } else if wait > 0 && self.failed {
            let what =
                format!("the exchange after one that has failed asks for a wait of {wait} ms");
            self.breaks(WAIT_RULE, what);
        }
    }

    fn check_held(&mut self, ask: &Ask) {
        let settled = ask.number("settled");
        let held = ask.list("held");
        let mut findings = Vec::new();
        for task in self.tasks.iter_mut().filter(|task| task.is_live()) {
            let is_it = |entry: &&Value| {
                entry["id"] == task.id
                    && entry["fence"] == json!(task.fence)
                    && entry["run"] == json!(task.run)
            };
            let is_held = held.iter().any(|entry| is_it(&entry));
            match task.sent {
                Some((seq, true)) if seq <= settled && !is_held => {
                    findings.push((HELD, format!("held lacks the claim of task {}", task.id)));
                }
                // It was lost with its answer: it is sent again.
                Some((seq, false)) if seq <= settled && !is_held => task.sent = None,
                _ => {}
            }
        }
        for entry in held {
            let id = entry["id"].as_str().unwrap_or_default();
            match self.tasks.iter().find(|task| task.id == id) {
                None => findings.push((HELD, format!("held has task {id}, which was never sent"))),
                Some(task) if is_past(task.over_sent) => {
                    let rule = if task.end == Some(End::Lost) {
                        LOST
                    } else {
                        HELD
                    };
                    findings.push((
                        rule,
                        format!("held has the claim of task {id}, which is over"),
                    ));
                }
                Some(_) => {}
            }
        }
        for (rule, text) in findings {
            self.breaks(rule, text);
        }
    }

    fn check_item(&mut self, ask: &Ask, item: &Value) {
        let (id, n) = (&item["id"], item["n"].as_u64().unwrap_or(0));
        let Some(task) = self.tasks.iter().find(|task| *id == task.id) else {
            return self.breaks(
                NUMBER,
                format!("a report names task {id}, which was never sent"),
            );
        };
        if task.end == Some(End::Lost) {
            if is_past(task.over_sent) {
                let what = format!("report {n} of task {id} comes after its claim was lost");
                self.breaks(LOST_REPORT, what);
            }
            return;
        }
        if n == 0 {
            return;
        }
        if let Some(content) = task.unanswered.get(&n) {
            if *content != Task::content(item) {
                let what = format!("report {n} of task {id} says something else than before");
                self.breaks(AGAIN, what);
            }
        } else if let Some(first) = task.unanswered.keys().next() {
            let is_first = |other: &Value| other["id"] == *id && other["n"] == json!(first);
            if !ask.list("items").iter().any(is_first) {
                let what = format!(
                    "report {first} of task {id} was not answered, and report {n} comes instead of it"
                );
                self.breaks(AGAIN, what);
            }
        } else if n <= task.n {
            let what = format!("task {id} has two reports with the number {n}");
            self.breaks(NUMBER, what);
        } else if n > task.n + ask.list("items").len() as u64 {
            let what = format!("report {n} of task {id} follows report {}", task.n);
            self.breaks(NUMBER, what);
        }
    }

    /// Checks what the handlers have done.
    pub(super) fn check_starts(&mut self) {
        let mut starts =
            (self.tasks.iter()).map(|task| (task.starts(), task.runs, task.id.clone()));
        let more = starts.find(|(starts, runs, _)| starts > runs);
        if let Some((starts, runs, id)) = more {
            let what =
                format!("the handler of task {id} has started {starts} times for {runs} runs");
            self.breaks(START, what);
        }
    }
}
