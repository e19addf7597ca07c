//! The scenarios, by name.

use std::time::Duration;

use super::{
    outages::{Killed, Silence},
    refusals::{Gone, Once, Refused},
    replaced::Replaced,
    scenarios::{Doubled, Drains, Loses, Lossy, Stops, Work},
    script::Scenario,
    unreadable::Unreadable,
};

const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(40);

/// Every scenario.
pub(super) const ALL: [Scenario; 20] = [
    Scenario {
        name: "work",
        bound: SHORT,
        script: || Box::new(Work { novelties: false }),
    },
    Scenario {
        name: "unknown-fields",
        bound: SHORT,
        script: || Box::new(Work { novelties: true }),
    },
    Scenario {
        name: "unreadable-values",
        bound: SHORT,
        script: || Box::<Unreadable>::default(),
    },
    Scenario {
        name: "lost-answers",
        bound: LONG,
        script: || Box::<Lossy>::default(),
    },
    Scenario {
        name: "doubled-claim",
        bound: SHORT,
        script: || Box::<Doubled>::default(),
    },
    Scenario {
        name: "replaced-run",
        bound: SHORT,
        script: || Box::<Replaced>::default(),
    },
    Scenario {
        name: "stops",
        bound: SHORT,
        script: || Box::new(Stops),
    },
    Scenario {
        name: "lost-claim",
        bound: SHORT,
        script: || Box::new(Loses),
    },
    Scenario {
        name: "drain",
        bound: SHORT,
        script: || Box::<Drains>::default(),
    },
    Scenario {
        name: "server-lost",
        bound: LONG,
        script: || Box::<Killed>::default(),
    },
    Scenario {
        name: "silence",
        bound: LONG,
        script: || Box::<Silence>::default(),
    },
    Scenario {
        name: "suspended",
        bound: LONG,
        script: || Box::new(Silence::suspended()),
    },
    Scenario {
        name: "refused-401",
        bound: SHORT,
        script: || Box::new(Refused::new(401)),
    },
    Scenario {
        name: "refused-403",
        bound: SHORT,
        script: || Box::new(Refused::new(403)),
    },
    Scenario {
        name: "over-410",
        bound: SHORT,
        script: || Box::<Gone>::default(),
    },
    Scenario {
        name: "stale-409",
        bound: SHORT,
        script: || Box::new(Once::new(409, None, false)),
    },
    Scenario {
        name: "too-large-413",
        bound: SHORT,
        script: || Box::new(Once::new(413, None, false)),
    },
    Scenario {
        name: "limited-429",
        bound: SHORT,
        script: || Box::new(Once::new(429, Some(2), false)),
    },
    Scenario {
        name: "busy-503",
        bound: SHORT,
        script: || Box::new(Once::new(503, Some(1), false)),
    },
    Scenario {
        name: "busy-503-of-two",
        bound: SHORT,
        script: || Box::new(Once::new(503, Some(1), true)),
    },
];
