use super::super::sample::*;
use super::*;
use crate::witness::Line;

/// The margin of the lease in these worlds.
const MARGIN: u64 = 100;

fn witnessed(mut lines: Vec<Line>) -> World {
    lines.sort_by_key(|l| l.at);
    World {
        witness: lines,
        ttl: MARGIN * 5,
        ..of_history(vec![submitted(), claimed("a", 2)])
    }
}

#[test]
fn one_after_the_other_holds() {
    let lines = vec![
        start(1, 7, 2, 0),
        end(2, 7, 2),
        start(3, 7, 2, 0),
        line(5, 7, Said::Killed),
        start(6, 8, 5, 0),
        end(9, 8, 5),
    ];
    holds(check(&witnessed(lines)));
}

#[test]
fn two_at_a_time_are_caught() {
    let lines = vec![
        start(1, 7, 2, 0),
        start(3, 8, 5, 0),
        end(4, 7, 2),
        end(5, 8, 5),
    ];
    caught(
        check(&witnessed(lines)),
        "claim 2 ran in process 7 from 1 to 4",
    );
}

#[test]
fn a_start_before_the_death_of_the_other_is_caught() {
    let lines = vec![
        start(1, 7, 2, 0),
        start(3, 8, 5, 0),
        line(4, 7, Said::Killed),
        end(5, 8, 5),
    ];
    caught(check(&witnessed(lines)), "claim 2 ran in process 7");
}

#[test]
fn two_runs_of_one_claim_are_caught_even_when_the_process_was_stopped() {
    let lines = vec![
        start(1, 7, 2, 0),
        line(2, 7, Said::Stopped),
        line(3, 7, Said::Continued),
        start(4, 7, 2, 0),
        end(5, 7, 2),
        end(6, 7, 2),
    ];
    caught(check(&witnessed(lines)), "claim 2 ran in process 7");
}

/// Claim 2 runs in process 7 from 1 to `ends`, and claim 5 in process 8 from `taken` to 3000.
fn overlap(pause: (u64, u64), taken: u64, ends: u64) -> World {
    witnessed(vec![
        start(1, 7, 2, 0),
        line(pause.0, 7, Said::Stopped),
        start(taken, 8, 5, 0),
        end(3000, 8, 5),
        line(pause.1, 7, Said::Continued),
        end(ends, 7, 2),
    ])
}

#[test]
fn a_process_that_was_stopped_has_a_margin_to_learn_of_it() {
    let world = overlap((1000, 2000), 1500, 2000 + MARGIN);
    holds(check(&world));
    let (runs, excused, commands) = (2, 1, 0);
    let counted = Overlaps {
        runs,
        excused,
        commands,
    };
    assert_eq!(overlaps(&world), counted);
    let late = overlap((1000, 2000), 1500, 2001 + MARGIN);
    caught(check(&late), "claim 2 ran in process 7");
}

#[test]
fn a_pause_that_is_shorter_than_the_margin_excuses_nothing() {
    let stalled = |since| {
        let mut world = overlap((0, 0), 1500, 1550);
        let said = Said::Stalled { since };
        world.witness.push(line(1520, 7, said));
        check(&world)
    };
    holds(stalled(1520 - MARGIN));
    caught(stalled(1521 - MARGIN), "claim 2 ran in process 7");
}

#[test]
fn a_pause_before_the_old_handler_ran_or_after_the_new_one_started_excuses_nothing() {
    let mut before = overlap((1000, 2000), 2010, 2050);
    before.witness[0].at = 1001;
    before.witness.sort_by_key(|l| l.at);
    caught(check(&before), "claim 2 ran in process 7 from 1001");
    let after = overlap((1500, 2000), 1501, 2050);
    caught(check(&after), "claim 2 ran in process 7");
    // The lease of a process that was well lasted for a margin at least.
    let soon = overlap((1500, 2000), 1499 + MARGIN / 2, 2050);
    caught(check(&soon), "claim 2 ran in process 7");
}

#[test]
fn a_pause_of_the_new_claim_excuses_nothing() {
    let mut world = overlap((1000, 2000), 1500, 2050);
    for line in &mut world.witness {
        if matches!(line.said, Said::Stopped | Said::Continued) {
            line.pid = 8;
        }
    }
    caught(check(&world), "claim 2 ran in process 7");
}

#[test]
fn a_node_that_is_cut_off_is_not_excused() {
    let mut world = overlap((1000, 2000), 1500, 2050);
    let how = "way 0 is silent".to_owned();
    world.witness[1].said = Said::Shaken { how };
    caught(check(&world), "claim 2 ran in process 7");
}

#[test]
fn a_zombie_that_is_stopped_again_before_it_learns_is_excused() {
    let again = |ends| {
        let mut world = overlap((1000, 2000), 1500, ends);
        world.witness.push(line(2010, 7, Said::Stopped));
        world.witness.push(line(2500, 7, Said::Continued));
        world.witness.sort_by_key(|l| l.at);
        check(&world)
    };
    // From 2000 to 2010 it ran, and from 2500 on.
    holds(again(2490 + MARGIN));
    // The second pause began when the new handler ran, so the first has to explain it all.
    caught(again(2491 + MARGIN), "claim 2 ran in process 7");
}

#[test]
fn one_that_never_wakes_has_ended_when_it_was_stopped() {
    let lines = |stopped| {
        witnessed(vec![
            start(1, 7, 2, 0),
            line(stopped, 7, Said::Stopped),
            start(20, 8, 5, 0),
            end(30, 8, 5),
            line(40, 7, Said::Killed),
        ])
    };
    holds(check(&lines(10)));
    caught(check(&lines(25)), "claim 2 ran in process 7");
}

#[test]
fn a_new_task_of_the_id_is_another_task() {
    let lines = vec![
        start(1, 7, 2, 0),
        start(3, 8, 5, 0),
        end(4, 7, 2),
        end(5, 8, 5),
    ];
    let mut world = witnessed(lines);
    caught(check(&world), "claim 2 ran in process 7");
    world.gone = gone(vec![submitted(), claimed("a", 2)]);
    holds(check(&world));
}

#[test]
fn excused_overlaps_that_are_the_rule_are_caught() {
    let many = |others: u64| {
        let mut lines = vec![line(1000, 7, Said::Stopped), line(2000, 7, Said::Continued)];
        for fence in 0..=FEW as u64 {
            let task: TaskId = format!("t{fence}").parse().unwrap();
            for mut line in [
                start(1, 7, 2, 0),
                start(1500, 8, 5, 0),
                end(1600, 8, 5),
                end(2050, 7, 2),
            ] {
                if let Said::Start { task: of, .. } | Said::End { task: of, .. } = &mut line.said {
                    *of = task.clone();
                }
                lines.push(line);
            }
        }
        for at in 0..others {
            lines.extend([start(3000 + at, 9, 9, 0), end(3000 + at, 9, 9)]);
        }
        check(&witnessed(lines))
    };
    caught(many(0), "49 of 98 runs overlapped");
    holds(many(1000));
}

#[test]
fn a_run_that_never_ends_is_caught() {
    caught(check(&witnessed(vec![start(1, 7, 2, 0)])), "never ended");
    caught(check(&witnessed(vec![end(1, 7, 2)])), "never started");
}

#[test]
fn a_lease_that_an_operator_ended_excuses_what_its_deadline_ends() {
    let revoked = |at, ends| {
        let mut world = overlap((1000, 2000), 1500, ends);
        world
            .witness
            .retain(|line| line.pid != 7 || !matches!(line.said, Said::Stopped | Said::Continued));
        world.witness.push(line(at, 7, Said::Revoked));
        world.witness.sort_by_key(|line| line.at);
        check(&world)
    };
    holds(revoked(1400, 1400 + 5 * MARGIN));
    caught(revoked(1400, 1401 + 5 * MARGIN), "claim 2 ran in process 7");
    // The other handler was there before.
    caught(revoked(1600, 1700), "claim 2 ran in process 7");
}
