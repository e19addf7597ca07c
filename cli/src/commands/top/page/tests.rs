//! Pages on screens of several sizes.

use jiff::{SignedDuration, Timestamp};
use ratatui::{Terminal, backend::TestBackend, style::Color};
use serde_json::json;

use super::*;

const EVERY: Duration = Duration::from_secs(1);

fn time(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn window(name: &str, seconds: f64, started: u64, failed: u64) -> serde_json::Value {
    let counts = |kind: serde_json::Value, started: u64, failed: u64| json!({"kind": kind, "started": started, "completed": started, "failed_attempts": failed, "failed": 0, "lost": 0});
    json!({
        "name": name, "seconds": seconds, "started": started, "completed": started - failed,
        "failed_attempts": failed, "failed": 1, "lost": 0,
        "per_second": {"started": started as f64 / seconds, "completed": 0.5, "failed_attempts": failed as f64 / seconds},
        "lateness": {"measured": started / 2, "p50_seconds": 0.0123, "p99_seconds": 4.56},
        "kinds": [counts(json!("pay"), 10, failed), counts(json!("mail"), 90, 3), counts(json!("fine"), 7, 0),
            counts(json!(null), 1, 1)],
    })
}

fn node(name: &str, slots: u32, running: u32) -> serde_json::Value {
    let spec = windlass::store::NodeSpec::new(name.parse().unwrap());
    let mut node = serde_json::to_value(NodeRecord::new(spec, 1, time(0))).unwrap();
    node["slots"] = json!(slots);
    node["running"] = json!(running);
    node["kinds"] = json!(["mail", "pay"]);
    node
}

use windlass::store::NodeRecord;

/// Returns the data of a page whose names are this one.
fn data(name: &str) -> Data {
    let mut worker = node("py-1", 4, 4);
    worker["worker"] = json!({"sdk": "python/1.2", "host": "h"});
    let windows = [
        window("10s", 10.0, 120, 4),
        window("1m", 60.0, 600, 4),
        window("10m", 300.0, 3000, 4),
        window("1h", 300.0, 3000, 12),
    ];
    let mut data = json!({
        "activity": {"since": time(0), "at": time(300), "windows": windows},
        "why": {"at": time(300), "waiting": [
            {"kind": name, "reason": "limit", "tasks": 3900, "at_least": true,
                "text": "it waits for a slot of the limit customer=acme", "remedy": "windlass list --kind mail --waits limit"},
            {"kind": "pay", "reason": "paused", "tasks": 2, "at_least": false, "text": "it is paused",
                "remedy": "windlass resume --kind pay --state paused"},
        ]},
        "nodes": [node("worker-1", 100, 3), worker, node("idle", 8, 0)],
    });
    data["activity"]["windows"][3]["kinds"][0]["kind"] = json!(name);
    serde_json::from_value(data).unwrap()
}

fn page(data: Data) -> Page {
    let latest = Latest {
        data,
        read: Instant::now(),
        failing: None,
    };
    Page::new("sqlite:/srv/jobs/windlass.db".to_owned(), latest, EVERY)
}

fn drawn(page: &mut Page, (width, height): (u16, u16), colors: bool) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = terminal.draw(|frame| page.draw(frame, Instant::now(), colors));
    draw.unwrap();
    terminal.backend().clone()
}

/// Returns the rows of the screen.
fn rows(page: &mut Page, size: (u16, u16)) -> Vec<String> {
    let screen = drawn(page, size, true);
    let cells = screen.buffer().content().chunks(usize::from(size.0));
    let rows = cells.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| row.trim_end().to_owned()).collect()
}

/// Returns every line of the body, which is reached screen by screen.
fn scrolled(page: &mut Page, size: (u16, u16)) -> String {
    let body = 1..usize::from(size.1) - 1;
    let mut seen = rows(page, size)[body.clone()].to_vec();
    loop {
        page.press(Key::Screens(1));
        let next = rows(page, size);
        if seen.ends_with(&next[body.clone()]) {
            return seen.join("\n");
        }
        seen.extend_from_slice(&next[body.clone()]);
    }
}

/// Regression: just after the start the counts of one second stood below the names of all windows.
#[tokio::test(start_paused = true)]
async fn a_window_that_is_not_longer_than_a_shorter_one_has_no_rate() {
    for (covered, started) in [
        (
            [1.0, 1.0, 1.0, 1.0],
            "started                      120       -       -       -",
        ),
        (
            [10.0, 15.0, 15.0, 15.0],
            "started                     12.0    8.00       -       -",
        ),
        (
            [10.0, 60.0, 600.0, 601.0],
            "started                     12.0    2.00    0.20    0.20",
        ),
    ] {
        let names = ["10s", "1m", "10m", "1h"].into_iter().zip(covered);
        let windows = names.map(|(name, seconds)| window(name, seconds, 120, 0));
        let windows: Vec<_> = windows
            .map(|of| serde_json::from_value(of).unwrap())
            .collect();
        let mut data = data("mail");
        data.activity.windows = windows;
        let shown = rows(&mut page(data), (100, 30));
        let row = shown.iter().find(|row| row.starts_with("started"));
        assert_eq!(row.map(String::as_str), Some(started), "{covered:?}");
        let late = shown.iter().find(|row| row.starts_with("lateness p50"));
        let dashes = late.unwrap().matches('-').count();
        assert_eq!(dashes, started.matches('-').count(), "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_smallest_screen_has_the_rates_and_scrolls_to_the_rest() {
    let mut page = page(data("mail"));
    let shown = rows(&mut page, (40, 10));
    let expected = [
        "sqlite:/srv/jobs/windlass.db   counts 5m",
        "PER SECOND           10s      1m      1h",
        "started             12.0    10.0    10.0",
        "completed           0.50    0.50    0.50",
        "failed attempts     0.40    0.07    0.04",
        "lateness p50        12ms    12ms    12ms",
        "lateness p99        4.6s    4.6s    4.6s",
        "lateness of 1500 of 3000 starts",
        "",
    ];
    assert_eq!(shown[..9], expected);
    assert!(
        shown[9].starts_with("q quit  p pause  s by name"),
        "{shown:?}"
    );
    assert!(shown[9].contains("1-8/"), "{shown:?}");
    let all = scrolled(&mut page, (40, 10));
    for text in [
        "FAILING KINDS, last 5m",
        "mail                          12",
        "3900+ mail: it waits for a slot of the",
        "   try: windlass list --kind mail",
        "   --waits limit",
        "NODES 3, slots 7/112",
        "py-1",
        "4/4  working",
    ] {
        assert!(all.contains(text), "{text} in:\n{all}");
    }
    page.press(Key::Lines(isize::MIN + 1));
    assert_eq!(rows(&mut page, (40, 10))[1], expected[1]);
}

#[tokio::test(start_paused = true)]
async fn a_wide_screen_has_every_column() {
    for size in [(80, 24), (200, 50)] {
        let mut page = page(data("mail"));
        let shown = rows(&mut page, size);
        let all = scrolled(&mut page, size);
        for text in [
            "10s      1m     10m      1h",
            "kind",
            "attempts  failed    lost  starts",
            "3900+ mail: it waits for a slot of the limit customer=acme",
            "   try: windlass list --kind mail --waits limit",
            "python/1.2",
            "mail, pay",
        ] {
            assert!(all.contains(text), "{size:?} {text} in:\n{all}");
        }
        assert!(
            shown
                .iter()
                .all(|row| row.chars().count() <= usize::from(size.0))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_and_nodes_are_sorted_by_number_or_by_name() {
    let mut page = page(data("zzz"));
    let order = |page: &mut Page, names: [&str; 3]| {
        let shown = rows(page, (100, 50));
        names.map(|name| shown.iter().position(|row| row.starts_with(name)).unwrap())
    };
    assert!(order(&mut page, ["zzz ", "mail ", "(others) "]).is_sorted());
    assert!(order(&mut page, ["py-1", "worker-1", "idle"]).is_sorted());
    page.press(Key::Sort);
    assert!(order(&mut page, ["mail ", "zzz ", "(others) "]).is_sorted());
    assert!(order(&mut page, ["idle", "py-1", "worker-1"]).is_sorted());
    let shown = rows(&mut page, (100, 50));
    assert!(
        !shown.iter().any(|row| row.starts_with("fine")),
        "it does not fail"
    );
}

#[tokio::test(start_paused = true)]
async fn a_screen_that_is_too_small_says_how_large_it_must_be() {
    let mut page = page(data("mail"));
    assert_eq!(
        rows(&mut page, (39, 10)),
        [vec!["needs 40x10, has 39x10"], vec![""; 9]].concat()
    );
    assert_eq!(rows(&mut page, (80, 9))[0], "needs 40x10, has 80x9");
    assert_eq!(rows(&mut page, (8, 1)), ["needs 4…"]);
}

#[tokio::test(start_paused = true)]
async fn names_do_what_no_terminal_obeys() {
    for name in [
        "a\u{e9}\u{5e9}\u{5dc}\u{5d5}\u{5dd}-\u{4e00}\u{4e01}",
        "long-name-".repeat(20).as_str(),
    ] {
        for size in [(40, 10), (80, 24), (200, 50)] {
            let mut data = data(name);
            // Not every text is a name of windlass: a newer server may send others.
            data.why.waiting[0].text = "it \x1b[2J\x07\u{202e}waits\n\u{9b}31m".to_owned();
            data.why.waiting[0].remedy = "GET /\u{2066}x".to_owned();
            let mut page = page(data);
            for _ in 0..30 {
                for row in rows(&mut page, size) {
                    let obeyed = |c: char| c.is_control() || ('\u{202a}'..='\u{2069}').contains(&c);
                    assert!(!row.contains(obeyed), "{row:?}");
                }
                page.press(Key::Screens(1));
            }
        }
    }
    let mut page = page(data("x"));
    page.name = "unix:/\x1b]0;title\x07".to_owned();
    assert!(rows(&mut page, (80, 24))[0].starts_with("unix:/\\u{1b}]0;title\\u{7}"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_page_keeps_its_data_and_says_how_old_they_are() {
    let mut page = page(data("mail"));
    assert!(!page.press(Key::Pause));
    tokio::time::advance(Duration::from_secs(12)).await;
    let mut newer = page.latest.clone();
    newer.data.nodes.clear();
    newer.read = Instant::now();
    page.update(newer.clone());
    let shown = rows(&mut page, (40, 10));
    assert_eq!(shown[0], "sqlite:/srv/j…  paused, data is 12 s old");
    assert!(shown[9].contains("p go on"), "{shown:?}");
    assert_eq!(page.latest.data.nodes.len(), 3);
    assert!(page.press(Key::Pause), "the newest data are wanted");
    page.update(newer);
    let shown = rows(&mut page, (100, 50));
    assert!(shown[0].ends_with("counts 5m"), "{shown:?}");
    assert!(shown.iter().any(|row| row.starts_with("no node lives")));
}

#[tokio::test(start_paused = true)]
async fn a_lost_store_is_shown_until_it_answers_again() {
    let mut page = page(data("mail"));
    tokio::time::advance(Duration::from_secs(4)).await;
    assert!(rows(&mut page, (80, 24))[0].contains("counts 5m"));
    // A read that hangs has no error.
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(rows(&mut page, (80, 24))[0], "no answer for 7 s");
    let mut latest = page.latest.clone();
    latest.failing = Some("could not list the nodes: \x1b busy".to_owned());
    page.update(latest.clone());
    let expected = "no answer for 7 s: could not list the nodes: \\u{1b} busy";
    assert_eq!(rows(&mut page, (80, 24))[0], expected);
    let screen = drawn(&mut page, (80, 24), true);
    assert_eq!(screen.buffer()[(0, 0)].fg, Color::Red);
    (latest.failing, latest.read) = (None, Instant::now());
    page.update(latest);
    assert!(rows(&mut page, (80, 24))[0].contains("counts 5m"));
}

#[tokio::test(start_paused = true)]
async fn without_colours_nothing_has_a_style() {
    let mut page = page(data("mail"));
    let styled = |page: &mut Page, colors| {
        let screen = drawn(page, (80, 24), colors);
        let mut cells = screen.buffer().content().iter();
        cells.any(|cell| cell.fg != Color::Reset || !cell.modifier.is_empty())
    };
    assert!(styled(&mut page, true));
    assert!(!styled(&mut page, false));
}
