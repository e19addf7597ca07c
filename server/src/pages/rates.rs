//! What the tasks do now: rates, lateness of starts, and the kinds that fail.

use maud::{Markup, html};
use windlass::client::activity::{Summary, Window};

use super::{form::encoded, frame::Page, text};

/// The most kinds that the section shows.
const KINDS: usize = 8;

/// Shows the rates of each window that is not empty, and the failing kinds of the longest one.
pub(super) fn show(page: &Page, summary: &Summary) -> Markup {
    let covered = summary.at.duration_since(summary.since).as_secs();
    let longest = summary.windows.last();
    html! {
        p.dim { "Counted by this server for " (text::length(covered)) ": it starts to count when a page asks for it." }
        div.scroll tabindex="0" role="region" aria-label="Rates" {
            table.rows.numbers {
                thead { tr {
                    th { "Last" } th.number { "Started/s" } th.number { "Completed/s" } th.number { "Failed attempts/s" }
                    th.number { "Late p50" } th.number { "Late p99" }
                } }
                tbody { @for window in &summary.windows { (row(window, has_more(summary, window))) } }
            }
        }
        @if let Some(window) = longest { (failing(page, window)) }
    }
}

/// Returns whether a window covers more time than the shorter ones. Just after the start all cover the same time.
fn has_more(summary: &Summary, window: &Window) -> bool {
    let shorter = summary.windows.iter();
    let shorter = shorter.take_while(|of| of.name != window.name);
    shorter.last().is_none_or(|of| of.seconds < window.seconds)
}

/// Shows a window, without its counts if a shorter window has the same.
fn row(window: &Window, is_told: bool) -> Markup {
    let of = &window.per_second;
    html! {
        tr data-key=(window.name) {
            td { (window.name) }
            @if is_told {
                td.number { (rate(of.started)) }
                td.number { (rate(of.completed)) }
                td.number { (rate(of.failed_attempts)) }
                td.number { (late(window.lateness.p50_seconds)) }
                td.number { (late(window.lateness.p99_seconds)) }
            } @else {
                @for _ in 0..5 { td.number { "–" } }
            }
        }
    }
}

fn failing(page: &Page, window: &Window) -> Markup {
    let fails = window.kinds.iter();
    let fails = fails.filter(|of| of.failed_attempts + of.failed + of.lost > 0);
    let fails: Vec<_> = fails.take(KINDS).collect();
    html! {
        @if !fails.is_empty() {
            h3 { "Failing kinds in the last " (window.name) }
            table.rows.numbers {
                thead { tr { th { "Kind" } th.number { "Failed attempts" } th.number { "Failed" } th.number { "Claims lost" } } }
                tbody { @for of in fails {
                    @let kind = of.kind.as_ref().map_or("others", |kind| kind.as_str());
                    tr data-key=(kind) {
                        td { @match &of.kind {
                            Some(kind) => { a href={ (page.base) "/tasks?error=&kind=" (encoded(kind.as_str())) } { (text::name(kind.as_str())) } },
                            None => { "others" },
                        } }
                        td.number { (of.failed_attempts) }
                        td.number { (of.failed) }
                        td.number { (of.lost) }
                    }
                } }
            }
        }
    }
}

fn rate(each_second: f64) -> String {
    match each_second {
        none if none <= 0.0 => "0".to_owned(),
        slow if slow < 10.0 => format!("{slow:.2}"),
        fast => format!("{fast:.0}"),
    }
}

fn late(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(short) if short < 1.0 => format!("{:.0} ms", short * 1e3),
        Some(long) => format!("{long:.1} s"),
    }
}
