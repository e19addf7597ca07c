//! The scenarios in which a server refuses a request.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    rules::{BUSY, OVER, PATIENT, REFUSED, Rule, STALE, TOO_LARGE},
    scenarios::{SLACK, is_past, sleeps},
    script::{Script, Treat},
    stand_in_store::{Ask, Endpoint, StandInStore},
    task::End,
};

/// Every request is refused from a moment on, with 401 or 403.
pub(super) struct Refused {
    status: u16,
    since: Option<Instant>,
    after: usize,
}

impl Refused {
    pub(super) fn new(status: u16) -> Self {
        Self {
            status,
            since: None,
            after: 0,
        }
    }
}

impl Script for Refused {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(60_000));
    }

    fn treat(&mut self, store: &mut StandInStore, ask: &Ask) -> Treat {
        if ask.endpoint == Endpoint::Exchange && store.tasks[0].is_running() {
            self.since.get_or_insert(ask.at);
        }
        if self.since.is_none() {
            return Treat::Serve;
        }
        if is_past(self.since, SLACK) && ask.endpoint != Endpoint::Register {
            self.after += 1;
            if self.after > 1 {
                store.breaks(
                    REFUSED,
                    format!("it goes on with requests after {}", self.status),
                );
            }
        }
        Treat::Say(self.status, None)
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        let Some(since) = self.since.filter(|since| since.elapsed() > 3 * SLACK) else {
            return false;
        };
        if store.tasks[0].goes_on_after(since + SLACK) {
            store.breaks(REFUSED, format!("a handler goes on after {}", self.status));
        }
        true
    }

    fn late(&self) -> (Rule, String) {
        (
            REFUSED,
            "it has not exchanged while its handler ran".to_owned(),
        )
    }
}

/// The lease is over while a handler runs.
#[derive(Default)]
pub(super) struct Gone {
    since: Option<Instant>,
}

impl Script for Gone {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(60_000));
    }

    fn treat(&mut self, store: &mut StandInStore, ask: &Ask) -> Treat {
        if self.since.is_none() && ask.endpoint == Endpoint::Exchange && store.tasks[0].is_running()
        {
            self.since = Some(ask.at);
            store.end_lease();
            store.add(json!({"do": "complete"}));
        }
        Treat::Serve
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        let Some(since) = self.since.filter(|since| since.elapsed() > 2 * SLACK) else {
            return false;
        };
        if store.tasks[0].goes_on_after(since + SLACK) {
            store.breaks(OVER, "a handler goes on after 410");
            return true;
        }
        store.all_ended()
    }

    fn late(&self) -> (Rule, String) {
        (OVER, "it has not registered again after 410".to_owned())
    }
}

/// One exchange and one report are refused with a status that asks for another try.
pub(super) struct Once {
    status: u16,
    retry_after: Option<u64>,
    /// When an exchange and a report were refused, and whether another one has come.
    refused: [Option<Instant>; 2],
    again: [bool; 2],
    two: bool,
}

impl Once {
    pub(super) fn new(status: u16, retry_after: Option<u64>, two: bool) -> Self {
        Self {
            status,
            retry_after,
            refused: [None; 2],
            again: [false; 2],
            two,
        }
    }

    fn rule(&self) -> Rule {
        match self.status {
            409 => STALE,
            413 => TOO_LARGE,
            429 => PATIENT,
            _ => BUSY,
        }
    }
}

impl Script for Once {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(4_000));
        store.add(json!({"do": "checkpoint"}));
        store.tasks[1].is_ready = false;
    }

    fn servers(&self) -> (bool, bool) {
        (true, self.two)
    }

    fn treat(&mut self, store: &mut StandInStore, ask: &Ask) -> Treat {
        let place = match ask.endpoint {
            Endpoint::Exchange => 0,
            Endpoint::Report => 1,
            Endpoint::Register => {
                if store.registrations > 0 {
                    store.breaks(
                        self.rule(),
                        format!("it registers again after {}", self.status),
                    );
                }
                return Treat::Serve;
            }
            Endpoint::Leave => return Treat::Serve,
        };
        let Some(refused) = self.refused[place] else {
            if place == 0 && !store.tasks[0].is_running() {
                return Treat::Serve;
            }
            self.refused[place] = Some(ask.at);
            store.tasks[1].is_ready = true;
            return Treat::Say(self.status, self.retry_after);
        };
        if !self.again[place] {
            self.again[place] = true;
            let wait = Duration::from_secs(self.retry_after.unwrap_or(0));
            // Timers may be a little early, and requests were under way.
            let early = refused.elapsed() + Duration::from_millis(200) < wait;
            if early && self.status == 429 {
                let passed = refused.elapsed().as_millis();
                let what = format!(
                    "it tries again {passed} ms after 429 with Retry-After: {}",
                    wait.as_secs()
                );
                store.breaks(PATIENT, what);
            }
        }
        Treat::Serve
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        if store
            .tasks
            .iter()
            .any(|task| task.end == Some(End::Aborted))
        {
            store.breaks(
                self.rule(),
                format!("it has aborted a handler after {}", self.status),
            );
        }
        store.all_ended() && self.again == [true; 2]
    }

    fn late(&self) -> (Rule, String) {
        let what = match self.again {
            [false, _] => "it has not exchanged again",
            [_, false] => "it has not reported again",
            _ => "it has not reported the end of each task",
        };
        (self.rule(), format!("after {} {what}", self.status))
    }
}
