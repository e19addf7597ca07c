//! The scenarios in which servers work: lost answers, doubled and lost claims, stops, drain.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    rules::{AGAIN, DRAIN, LOST, REGISTER_AGAIN, Rule, STOP, UNKNOWN, WORKS},
    script::{Script, Treat},
    stand_in_store::{Ask, Endpoint, StandInStore},
    task::End,
};

/// What a machine under load may add.
pub(super) const SLACK: Duration = Duration::from_millis(1500);

pub(super) fn sleeps(millis: u64) -> Value {
    json!({"do": "sleep", "sleep_ms": millis})
}

pub(super) fn is_past(since: Option<Instant>, time: Duration) -> bool {
    since.is_some_and(|since| since.elapsed() >= time)
}

/// Each step of a task once, with answers that have unknown fields if `novelties`.
pub(super) struct Work {
    pub(super) novelties: bool,
}

impl Script for Work {
    fn begin(&mut self, store: &mut StandInStore) {
        store.novelties = self.novelties;
        for does in ["complete", "checkpoint", "run", "error"] {
            store.add(json!({"do": does, "keep": [1, 2.5, "ü"]}));
        }
        store.add(sleeps(200));
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        if !store.all_ended() {
            return false;
        }
        let mut findings = Vec::new();
        for task in &store.tasks {
            let wanted = match task.props["do"].as_str() {
                Some("error") => "error",
                _ => "complete",
            };
            let returned = task.returned().unwrap_or("nothing");
            if returned != wanted {
                findings.push(format!(
                    "the handler of {} returned {returned}, not {wanted}",
                    task.props
                ));
            } else if let (Some(End::Returned(message)), "complete") = (&task.end, wanted)
                && message["result"] != task.props
            {
                findings.push(format!(
                    "a handler completed with {}, not with its props",
                    message["result"]
                ));
            }
        }
        for finding in findings {
            store.breaks(self.late().0, finding);
        }
        true
    }

    fn late(&self) -> (Rule, String) {
        let rule = if self.novelties { UNKNOWN } else { WORKS };
        (rule, "it has not reported the end of each task".to_owned())
    }
}

/// Answers are lost, or requests before they are carried out, at each kind of request.
#[derive(Default)]
pub(super) struct Lossy {
    first: Option<(Value, Value)>,
    reports: usize,
}

impl Script for Lossy {
    fn begin(&mut self, store: &mut StandInStore) {
        for does in ["checkpoint", "run", "complete"] {
            store.add(json!({"do": does}));
        }
    }

    fn treat(&mut self, store: &mut StandInStore, ask: &Ask) -> Treat {
        match ask.endpoint {
            Endpoint::Register => {
                let lease = (ask.body["name"].clone(), ask.body["secret"].clone());
                let first = self.first.get_or_insert_with(|| lease.clone());
                if *first != lease {
                    store.breaks(
                        REGISTER_AGAIN,
                        "the answer was lost, and it registers with another name or secret",
                    );
                }
                match ask.nth {
                    1 => Treat::Lose,
                    _ => Treat::Serve,
                }
            }
            Endpoint::Exchange if ask.nth == 1 || ask.nth == 3 => Treat::Lose,
            Endpoint::Exchange if ask.nth == 5 => Treat::Drop,
            Endpoint::Report => {
                self.reports += 1;
                match self.reports {
                    1 | 4 | 6 => Treat::Lose,
                    2 => Treat::Drop,
                    _ => Treat::Serve,
                }
            }
            _ => Treat::Serve,
        }
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        store.all_ended()
    }

    fn late(&self) -> (Rule, String) {
        match self.first.is_some() {
            true => (AGAIN, "it has not reported the end of each task".to_owned()),
            false => (WORKS, "it has not registered".to_owned()),
        }
    }
}

/// A claim is sent again while its handler runs, and after it has ended.
#[derive(Default)]
pub(super) struct Doubled {
    again: Option<Instant>,
}

impl Script for Doubled {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(2_000));
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        let is_running = store.tasks[0].is_running();
        if is_running && self.again.is_none() {
            self.again = Some(Instant::now());
            store.tasks[0].sent = None;
        }
        store.all_ended() && is_past(self.again, Duration::from_secs(3))
    }

    fn late(&self) -> (Rule, String) {
        (WORKS, "it has not reported the end of a task".to_owned())
    }
}

/// Handlers are asked to stop: one that obeys, one that does not, one without a grace.
pub(super) struct Stops;

const GRACES: [u64; 3] = [10_000, 1_000, 0];

impl Script for Stops {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(60_000));
        for _ in 0..2 {
            store.add(json!({"do": "sleep", "sleep_ms": 60_000, "stubborn": true}));
        }
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        if store
            .tasks
            .iter()
            .all(|task| task.stop.is_some() || task.is_running())
        {
            for (place, grace) in GRACES.into_iter().enumerate() {
                store.stop(place, "command", Duration::from_millis(grace));
            }
        }
        let mut findings = Vec::new();
        for (place, task) in store.tasks.iter().enumerate() {
            let Some(stop) = task.stop.as_ref() else {
                continue;
            };
            // The first ends by itself, long before its grace is over.
            let grace = if place == 0 {
                Duration::ZERO
            } else {
                stop.grace
            };
            if is_past(stop.sent, grace + 2 * SLACK)
                && (task.is_live()
                    || task.goes_on_after(
                        stop.sent.map_or_else(Instant::now, |at| at + grace + SLACK),
                    ))
            {
                let what = match task.is_live() {
                    true => "was not reported as ended",
                    false => "goes on",
                };
                findings.push(format!(
                    "a handler {what} {} ms after a stop with a grace of {} ms",
                    (grace + 2 * SLACK).as_millis(),
                    stop.grace.as_millis()
                ));
            }
        }
        let broken = !findings.is_empty();
        for finding in findings {
            store.breaks(STOP, finding);
        }
        let last = store
            .tasks
            .iter()
            .filter_map(|task| task.stop.as_ref()?.sent)
            .max();
        broken || (store.all_ended() && is_past(last, Duration::from_secs(1) + 2 * SLACK))
    }

    fn late(&self) -> (Rule, String) {
        (
            WORKS,
            "it has not started three handlers at once".to_owned(),
        )
    }
}

/// A claim is lost while its handler runs.
#[derive(Default)]
pub(super) struct Loses;

impl Script for Loses {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(60_000));
        store.add(sleeps(5_000));
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        if store.tasks.iter().all(|task| task.is_running()) {
            store.lose(0);
        }
        let over_sent = store.tasks[0].over_sent;
        if is_past(over_sent, 2 * SLACK)
            && let Some(over_sent) = over_sent
            && store.tasks[0].goes_on_after(over_sent + SLACK)
        {
            store.breaks(LOST, "a handler goes on whose claim is lost");
            return true;
        }
        is_past(over_sent, 2 * SLACK) && !store.tasks[1].is_live()
    }

    fn late(&self) -> (Rule, String) {
        (
            LOST,
            "after a claim was lost it has not reported the end of another task".to_owned(),
        )
    }
}

/// The worker is drained while a handler runs.
#[derive(Default)]
pub(super) struct Drains {
    reports: usize,
}

impl Script for Drains {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(60_000));
        store.add(json!({"do": "complete"}));
        store.tasks[1].is_ready = false;
    }

    fn treat(&mut self, store: &mut StandInStore, ask: &Ask) -> Treat {
        if ask.endpoint == Endpoint::Report && store.drain {
            self.reports += 1;
            let stop = store.tasks[0].stop.as_ref();
            let is_told = stop.is_some_and(|stop| stop.sent.is_some());
            if is_told && ask.body["claims_wanted"] == json!(true) {
                store.breaks(DRAIN, "a report after the drain has claims_wanted");
            }
        }
        Treat::Serve
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        if store.tasks[0].is_running() && store.tasks[0].stop.is_none() {
            store.drain = true;
            store.stop(0, "drain", Duration::from_secs(10));
        }
        if self.reports > 0 && !store.tasks[0].is_live() && store.drain {
            // It gets tasks again after the drain.
            store.drain = false;
            store.tasks[1].is_ready = true;
        }
        store.all_ended()
    }

    fn late(&self) -> (Rule, String) {
        (
            DRAIN,
            "it has not released its task, or takes no task after the drain".to_owned(),
        )
    }
}
