//! The state machine, drawn from the table of `docs/reference/lifecycle.md`, which `tests/documents/docs.rs` holds to the
//! table in the code. An edge without a place, and a place without an edge, is an error.

use std::collections::BTreeMap;

use super::svg::{Drawing, Frame, INK, Label, MUTED, Point};

const LIVE: [(&str, Point); 4] = [
    ("runnable", (70, 90)),
    ("sleeping", (430, 90)),
    ("fault", (70, 330)),
    ("paused", (430, 330)),
];
const ENDED: [(&str, Point); 3] = [
    ("completed", (800, 90)),
    ("failed", (800, 330)),
    ("killed", (330, 500)),
];
const LIVE_SIZE: Point = (210, 66);
const ENDED_SIZE: Point = (140, 46);

/// An arrow of the picture: from, to, its way, and where its text stands.
type Edge = (&'static str, &'static str, &'static [Point], Point);

#[rustfmt::skip] // A line per edge.
const EDGES: [Edge; 16] = [
    ("runnable", "sleeping", &[(280, 108), (430, 108)], (355, 103)),
    ("sleeping", "runnable", &[(430, 136), (280, 136)], (355, 131)),
    ("runnable", "fault", &[(95, 156), (95, 330)], (95, 250)),
    ("fault", "runnable", &[(150, 330), (150, 156)], (150, 250)),
    ("sleeping", "paused", &[(620, 156), (620, 330)], (620, 250)),
    ("paused", "sleeping", &[(562, 330), (562, 156)], (562, 250)),
    ("fault", "paused", &[(280, 363), (430, 363)], (355, 358)),
    ("runnable", "paused", &[(190, 156), (440, 330)], (252, 203)),
    ("paused", "runnable", &[(510, 330), (260, 156)], (448, 291)),
    ("sleeping", "fault", &[(440, 156), (190, 330)], (378, 203)),
    ("fault", "sleeping", &[(260, 330), (510, 156)], (322, 291)),
    ("runnable", "completed", &[(175, 90), (175, 58), (870, 58), (870, 90)], (738, 53)),
    ("sleeping", "completed", &[(640, 113), (800, 113)], (738, 108)),
    ("paused", "completed", &[(640, 345), (850, 136)], (738, 252)),
    ("fault", "failed", &[(175, 396), (175, 420), (870, 420), (870, 376)], (738, 415)),
    ("live", "killed", &[(400, 450), (400, 500)], (400, 480)),
];

/// The messages of each edge (from, to) of the table.
fn rows(page: &str) -> Result<BTreeMap<(String, String), Vec<String>>, String> {
    let table = page.split("<!-- table").nth(1);
    let table = table.and_then(|rest| rest.split("<!-- end of table").next());
    let table =
        table.ok_or("could not draw the states: docs/reference/lifecycle.md has no table")?;
    let mut lines = table.lines().filter(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let heads = lines.next().map(cells).unwrap_or_default();
    let mut edges: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for row in lines.skip(1).map(cells) {
        for (message, to) in heads.iter().zip(&row).skip(1).filter(|(_, to)| *to != "–") {
            let edge = edges.entry((row[0].clone(), to.clone()));
            edge.or_default().push(message.clone());
        }
    }
    Ok(edges)
}

/// One arrow for a message that has the same effect in every live state.
fn merge(edges: &mut BTreeMap<(String, String), Vec<String>>) {
    let edge = |from: &str| (from.to_owned(), "killed".to_owned());
    let all: Vec<_> = LIVE
        .iter()
        .map(|(name, _)| edges.get(&edge(name)))
        .collect();
    if all
        .iter()
        .all(|messages| messages.is_some() && *messages == all[0])
    {
        let messages = all[0].cloned().unwrap_or_default();
        for (name, _) in LIVE {
            edges.remove(&edge(name));
        }
        edges.insert(edge("live"), messages);
    }
}

fn state(drawing: &mut Drawing, name: &str, place: (Point, Point), stays: Option<&str>) {
    let ((x, y), size) = place;
    let fill = if size == LIVE_SIZE {
        "#dbeafe"
    } else {
        "#e5e7eb"
    };
    drawing.frame(&Frame {
        at: (x, y),
        size,
        fill,
        stroke: INK,
    });
    let lift = if stays.is_some() { 6 } else { -5 };
    drawing.label(&Label {
        is_bold: true,
        size: 15,
        ..Label::middle((x + size.0 / 2, y + size.1 / 2 - lift), name)
    });
    if let Some(stays) = stays {
        drawing.label(&Label {
            size: 11,
            fill: MUTED,
            ..Label::middle((x + size.0 / 2, y + size.1 / 2 + 16), stays)
        });
    }
}

/// The picture.
pub(super) fn draw(page: &str) -> Result<String, String> {
    let mut edges = rows(page)?;
    merge(&mut edges);
    let mut drawing = Drawing::new(
        980,
        590,
        "The states of a task and the messages between them",
    );
    drawing.frame(&Frame {
        at: (30, 30),
        size: (640, 420),
        fill: "#f8fafc",
        stroke: "#94a3b8",
    });
    let mut texts = Vec::new();
    for (from, to, way, at) in EDGES {
        let messages = edges.remove(&(from.to_owned(), to.to_owned()));
        let messages = messages.ok_or(format!(
            "could not draw the states: no message leads from {from} to {to}; \
             take the edge out of xtask/src/pictures/states.rs"
        ))?;
        drawing.arrow(way, INK);
        texts.push((at, messages.join(", ")));
    }
    for (at, text) in &texts {
        drawing.covering(&Label::middle(*at, text));
    }
    for (name, at) in LIVE {
        let stays = edges.remove(&(name.to_owned(), name.to_owned()));
        let stays = stays.map(|messages| format!("stays: {}", messages.join(", ")));
        state(&mut drawing, name, (at, LIVE_SIZE), stays.as_deref());
    }
    for (name, at) in ENDED {
        state(&mut drawing, name, (at, ENDED_SIZE), None);
    }
    if let Some((from, to)) = edges.keys().next() {
        return Err(format!(
            "could not draw the states: no place for the edge from {from} to {to}; \
             give it one in xtask/src/pictures/states.rs"
        ));
    }
    for (at, text) in [
        (
            (480, 530),
            "The frame holds the live states. A terminal state takes no message:",
        ),
        (
            (480, 550),
            "only retry starts the task again, as a new incarnation, runnable.",
        ),
        (
            (30, 20),
            "In fault the retry policy answers at once, in the same write.",
        ),
    ] {
        drawing.label(&Label {
            anchor: "start",
            size: 12,
            fill: MUTED,
            ..Label::middle(at, text)
        });
    }
    Ok(drawing.finish())
}
