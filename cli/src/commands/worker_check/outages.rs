//! The scenarios in which servers are lost, or the client is.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    rules::{OVER, Rule, SERVERS, TTL as TTL_RULE, WORKS},
    scenarios::{SLACK, sleeps},
    script::{Script, Treat},
    stand_in_store::{Ask, Endpoint, StandInStore, TTL},
    task::End,
};

/// The server that the client knows ends, and another one of the list goes on.
#[derive(Default)]
pub(super) struct Killed {
    since: Option<Instant>,
}

impl Script for Killed {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(3_000));
        store.add(json!({"do": "complete"}));
        store.tasks[1].is_ready = false;
    }

    fn servers(&self) -> (bool, bool) {
        (self.since.is_none(), true)
    }

    fn treat(&mut self, store: &mut StandInStore, ask: &Ask) -> Treat {
        if ask.server == 1 && ask.endpoint == Endpoint::Register && self.since.is_some() {
            store.breaks(
                SERVERS,
                "it registers again at another server while its lease is live",
            );
        }
        store.tasks[1].is_ready |= ask.server == 1;
        Treat::Serve
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        if store.tasks[0].is_running() && self.since.is_none() {
            self.since = Some(Instant::now());
        }
        if store.tasks[0].end == Some(End::Aborted) {
            store.breaks(
                SERVERS,
                "it has aborted a handler because a server was lost",
            );
        }
        store.all_ended()
    }

    fn late(&self) -> (Rule, String) {
        (SERVERS, "it has not gone on at the other server".to_owned())
    }
}

/// An answer comes late, then no server answers until the lease is over.
#[derive(Default)]
pub(super) struct Silence {
    /// When the exchange arrived that was renewed last.
    renewed: Option<Instant>,
    over: bool,
    /// Whether the client is suspended meanwhile, for longer than the TTL.
    suspends: bool,
}

/// When the client is suspended, counted from the last exchange.
const SUSPENDED: Range<Duration> = Duration::from_secs(4)..Duration::from_secs(16);

/// How late the last answer comes.
const LATE: Duration = Duration::from_millis(3_600);

impl Silence {
    pub(super) fn suspended() -> Self {
        Self {
            suspends: true,
            ..Self::default()
        }
    }
}

impl Script for Silence {
    fn begin(&mut self, store: &mut StandInStore) {
        store.add(sleeps(60_000));
        store.add(json!({"do": "sleep", "sleep_ms": 60_000, "stubborn": true}));
    }

    fn treat(&mut self, store: &mut StandInStore, ask: &Ask) -> Treat {
        match self.renewed {
            None if ask.endpoint == Endpoint::Exchange
                && store.tasks.iter().all(|task| task.is_running()) =>
            {
                self.renewed = Some(ask.at);
                Treat::Late(LATE)
            }
            None => Treat::Serve,
            Some(_) if !self.over => Treat::Drop,
            Some(_) => Treat::Serve,
        }
    }

    fn is_suspended(&self) -> bool {
        let since = self.renewed.map(|renewed| renewed.elapsed());
        self.suspends && since.is_some_and(|since| SUSPENDED.contains(&since))
    }

    fn look(&mut self, store: &mut StandInStore) -> bool {
        let Some(renewed) = self.renewed else {
            return false;
        };
        let stops = renewed
            + match self.suspends {
                true => SUSPENDED.end,
                false => TTL.mul_f64(0.8),
            }
            + SLACK;
        if Instant::now() < stops + SLACK {
            return false;
        }
        if store
            .tasks
            .iter()
            .take(2)
            .any(|task| task.goes_on_after(stops))
        {
            let what = match self.suspends {
                true => "a handler goes on after the client was suspended for longer than the TTL",
                false => {
                    "a handler goes on later than 0.8 TTL after the last renewed exchange was sent"
                }
            };
            store.breaks(TTL_RULE, what);
            return true;
        }
        if !self.over {
            self.over = true;
            store.end_lease();
            store.add(json!({"do": "complete"}));
        }
        store.all_ended()
    }

    fn late(&self) -> (Rule, String) {
        match self.over {
            true => (
                OVER,
                "it has not registered again after the lease was over".to_owned(),
            ),
            false => (WORKS, "it has not started two handlers at once".to_owned()),
        }
    }
}
