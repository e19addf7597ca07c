//! Sequence diagrams: a column for each part, time downwards.

use super::svg::{BLUE, Drawing, Frame, INK, Label, MUTED};

/// A part that acts, and where its code is.
type Lane = (&'static str, &'static str);

/// One step of a flow. The numbers are columns.
enum Step {
    /// A call or an answer from one part to another.
    Call(usize, usize, &'static str),
    /// Work of one part: its lines.
    Work(usize, &'static [&'static str]),
    /// A heading of the steps that follow.
    Part(&'static str),
}

struct Flow {
    title: &'static str,
    lanes: &'static [Lane],
    steps: &'static [Step],
}

use Step::{Call, Part, Work};

const COMMIT: Flow = Flow {
    title: "The life of a commit",
    lanes: &[
        ("handler", "your code"),
        ("engine", "src/runner/engine"),
        ("machine", "statemachine/src/machine"),
        ("store", "src/store"),
        ("disk", "SQLite file or etcd quorum"),
    ],
    steps: &[
        Call(0, 1, "returns a message"),
        Call(1, 2, "input: returned"),
        Work(
            2,
            &["applies the message, then", "each waiting command in order"],
        ),
        Call(2, 1, "effect: persist one write"),
        Work(1, &["collects the writes of", "all tasks of this turn"]),
        Call(1, 3, "commit, all writes in one call"),
        Work(
            3,
            &[
                "compares claim and fence; adds",
                "state, history, outcomes, effects",
            ],
        ),
        Call(3, 4, "all of them, one transaction"),
        Call(4, 3, "durable"),
        Call(3, 1, "Ok, or Fenced"),
        Call(1, 2, "input: stored"),
        Part("Only now, after the write is durable:"),
        Call(2, 1, "effect: start, arm, done"),
        Call(1, 0, "starts the next run"),
        Work(3, &["reports the change to", "watches and clients"]),
        Part("Fenced instead: nothing is written, and the engine stops the handler."),
    ],
};

const CLAIM: Flow = Flow {
    title: "The path of a claim",
    lanes: &[
        ("store", "src/store"),
        ("A: watch, due index", "src/runner/due.rs"),
        ("A: engine", "src/runner/engine"),
        ("A: handler", "your code"),
        ("node B", "another node"),
    ],
    steps: &[
        Call(0, 1, "event: the task is claimable"),
        Call(0, 4, "the same event to every node"),
        Work(
            1,
            &["waits until the task is due", "(an entry of an index)"],
        ),
        Call(1, 2, "due"),
        Work(
            2,
            &[
                "is there a slot for the kind?",
                "does the balancer take it?",
                "rank among nodes: first",
            ],
        ),
        Work(4, &["rank: second, waits", "a moment (50 ms)"]),
        Call(2, 0, "claim, up to 512 tasks a call"),
        Work(0, &["no live claim? gives", "a greater fence"]),
        Call(0, 2, "task, state, fence, commands"),
        Call(0, 4, "event: claimed by A"),
        Work(4, &["removes the task from", "its due index"]),
        Call(2, 3, "starts the handler"),
        Part("The claim ends in one of these ways:"),
        Call(2, 0, "a write that ends, parks or releases the task"),
        Work(
            0,
            &[
                "the lease expires: the task",
                "is claimable, one attempt less",
            ],
        ),
    ],
};

const COLUMN: i32 = 220;
const LEFT: i32 = 120;
const TOP: i32 = 84;

fn draw(flow: &Flow) -> String {
    let x = |lane: usize| LEFT + COLUMN * i32::try_from(lane).unwrap_or(0);
    let height_of = |step: &Step| match step {
        Call(..) => 34,
        Work(_, lines) => 22 + 16 * i32::try_from(lines.len()).unwrap_or(0),
        Part(_) => 40,
    };
    let bottom = TOP + flow.steps.iter().map(height_of).sum::<i32>() + 16;
    let width = 2 * LEFT + COLUMN * (i32::try_from(flow.lanes.len()).unwrap_or(1) - 1);
    let mut drawing = Drawing::new(width, bottom + 10, flow.title);
    for (lane, (name, place)) in flow.lanes.iter().enumerate() {
        drawing.line(&[(x(lane), 64), (x(lane), bottom)], "#cbd5e1", "4 4");
        drawing.frame(&Frame {
            at: (x(lane) - 104, 16),
            size: (208, 48),
            fill: "#dbeafe",
            stroke: INK,
        });
        drawing.label(&Label {
            is_bold: true,
            size: 12,
            ..Label::middle((x(lane), 37), name)
        });
        drawing.label(&Label {
            size: 11,
            fill: MUTED,
            ..Label::middle((x(lane), 54), place)
        });
    }
    let mut y = TOP;
    for step in flow.steps {
        match step {
            Call(from, to, text) => {
                let at = y + 20;
                drawing.arrow(&[(x(*from), at), (x(*to), at)], INK);
                let between = (x(*from) + x(*to)) / 2;
                drawing.covering(&Label {
                    size: 11,
                    ..Label::middle((between, at - 7), text)
                });
            }
            Work(lane, lines) => {
                drawing.frame(&Frame {
                    at: (x(*lane) - 100, y + 4),
                    size: (200, height_of(step) - 8),
                    fill: "#fef9c3",
                    stroke: "#a16207",
                });
                for (n, line) in (0..).zip(*lines) {
                    drawing.label(&Label {
                        size: 11,
                        ..Label::middle((x(*lane), y + 22 + 16 * n), line)
                    });
                }
            }
            Part(text) => {
                drawing.line(&[(16, y + 26), (width - 16, y + 26)], BLUE, "2 3");
                drawing.covering(&Label {
                    anchor: "start",
                    is_bold: true,
                    fill: BLUE,
                    ..Label::middle((24, y + 18), text)
                });
            }
        }
        y += height_of(step);
    }
    drawing.finish()
}

/// How a message of a handler becomes durable.
pub(super) fn commit() -> String {
    draw(&COMMIT)
}

/// How a task comes to a node, and away from it.
pub(super) fn claim() -> String {
    draw(&CLAIM)
}
