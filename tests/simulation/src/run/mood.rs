//! The kinds of runs: most have many faults at once. Others have what is only seen when little else happens.

use std::time::Duration;

use fastrand::Rng;

use super::{Ground, MEMBERS, Plan};
use crate::{
    faults::{Fault, What},
    network::Condition,
};

/// An hour, in milliseconds.
const HOUR: i64 = 3_600_000;
/// For how long nothing happens before a fault whose bound needs a calm time.
const BEFORE: Duration = Duration::from_millis(2_800);

fn millis(rng: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.u64(from..to))
}

impl Plan {
    /// Draws what kind of a run it is, and changes the plan.
    pub(super) fn draw_mood(&mut self, rng: &mut Rng, processes: usize) {
        let is_on_etcd = self.ground == Ground::Etcd;
        match rng.u32(0..100) {
            0..14 => self.be_alone(rng),
            14..36 if is_on_etcd => self.be_calm(rng),
            36..42 if is_on_etcd => self.go_back(rng),
            _ => self.add_rare_faults(rng, processes),
        }
        self.faults.sort_by_key(|fault| fault.at);
        if self.has_wrong_clocks() {
            // A schedule would miss thousands of times, and each is compared.
            self.schedules = 0;
        }
    }

    /// Returns whether a clock is wrong by minutes or more for a while.
    pub(super) fn has_wrong_clocks(&self) -> bool {
        self.faults.iter().any(|fault| fault.what.is_wrong_clock())
    }

    /// One node, which hears of a task from nobody else, and whose clock is ahead for some moments.
    fn be_alone(&mut self, rng: &mut Rng) {
        self.nodes = 1;
        self.faults.clear();
        let over = u64::try_from(self.over.as_millis()).unwrap_or(u64::MAX);
        for _ in 0..rng.usize(8..=16) {
            let (at, lasts) = (millis(rng, 500, over), millis(rng, 5, 40));
            let what = What::Clock(1, rng.i64(800..3_000));
            self.faults.push(Fault { at, lasts, what });
        }
        for _ in 0..rng.usize(0..=2) {
            let slow = Condition {
                slow: millis(rng, 20, 300),
                ..Condition::default()
            };
            let (at, lasts) = (millis(rng, 0, over), millis(rng, 500, 3_000));
            let what = What::Lines(Some(1), None, slow);
            self.faults.push(Fault { at, lasts, what });
        }
        if rng.u32(0..3) == 0 && self.ground == Ground::Etcd {
            self.faults.push(wrong_clock(rng, over, 1));
        }
    }

    /// Few faults, one after the other.
    fn be_calm(&mut self, rng: &mut Rng) {
        self.faults.clear();
        self.over = Duration::from_secs(14);
        self.ttl = Duration::from_secs(2);
        self.timeout = millis(rng, 1_000, 2_000);
        let mut at = BEFORE;
        loop {
            let (what, lasts) = self.draw_calm(rng);
            if at + lasts > self.over {
                return;
            }
            self.faults.push(Fault { at, lasts, what });
            at += lasts + BEFORE + millis(rng, 0, 500);
        }
    }

    fn draw_calm(&self, rng: &mut Rng) -> (What, Duration) {
        let node = rng.usize(1..=self.nodes);
        let member = rng.usize(0..MEMBERS);
        let silent = Condition {
            cut_up: true,
            cut_down: true,
            ..Condition::default()
        };
        let deaf = Condition {
            cut_down: true,
            ..Condition::default()
        };
        let (ttl, short) = (self.ttl, millis(rng, 50, 900));
        let long = ttl + millis(rng, 1_000, 2_500);
        match rng.u32(0..20) {
            0..3 => (What::Full, long),
            3..6 => {
                let process = rng.bool().then_some(node);
                (What::Lines(process, Some(member), silent), long)
            }
            6..8 => {
                let lasts = ttl + millis(rng, 0, 900);
                (What::Lines(Some(node), None, deaf), lasts)
            }
            8..10 => (What::Unregister(node), short),
            10..13 => (What::Revoke(node), short),
            13..16 => {
                let lasts = ttl.mul_f64(0.45 + 0.5 * rng.f64());
                (What::PauseAtRenewal(node), lasts)
            }
            16 => (What::LateWatches(0), millis(rng, 5_300, 6_500)),
            17 | 18 => (What::Restored(member), short),
            _ => (What::Down(member), long),
        }
    }

    /// The whole etcd goes back to an earlier state.
    fn go_back(&mut self, rng: &mut Rng) {
        self.faults.clear();
        let at = millis(rng, 1_500, 3_500);
        self.goes_back = Some((at, at + millis(rng, 1_000, 2_000)));
    }

    /// Many faults at once, and some that are rare.
    fn add_rare_faults(&mut self, rng: &mut Rng, processes: usize) {
        let over = u64::try_from(self.over.as_millis()).unwrap_or(u64::MAX);
        for _ in 0..rng.usize(0..=3) {
            let node = rng.usize(1..=self.nodes);
            let (what, longest) = match rng.u32(0..9) {
                0 => (What::Unregister(node), 500),
                1 => (What::Revoke(node), 500),
                2 | 3 => (What::PauseAtRenewal(node), 3_000),
                4 => (What::LateWatches(rng.usize(0..=self.nodes)), 7_000),
                _ => (What::Restored(rng.usize(0..MEMBERS)), 1_000),
            };
            let (at, lasts) = (millis(rng, 0, over), millis(rng, 10, longest));
            self.faults.push(Fault { at, lasts, what });
        }
        if rng.u32(0..4) == 0 && self.ground == Ground::Etcd {
            for _ in 0..rng.usize(1..=3) {
                let process = rng.usize(1..=processes);
                self.faults.push(wrong_clock(rng, over, process));
            }
        }
    }
}

/// A clock that is wrong by hours or days for a while. It is not behind by about a day, for which some tasks sleep.
fn wrong_clock(rng: &mut Rng, over: u64, process: usize) -> Fault {
    let hours = match rng.bool() {
        true => rng.i64(1..=12),
        false => rng.i64(36..=48),
    };
    let ahead = hours * HOUR + rng.i64(0..HOUR);
    let (at, lasts) = (millis(rng, 0, over), millis(rng, 300, 4_000));
    let what = What::Clock(process, if rng.u32(0..3) == 0 { -ahead } else { ahead });
    Fault { at, lasts, what }
}
