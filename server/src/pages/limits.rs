//! The limits that tasks use at present.

use jiff::Timestamp;
use maud::html;
use serde::Deserialize;

use super::{
    Answer,
    frame::{Page, Place},
    record, text,
};

/// The most limits of the page.
const MOST: usize = 200;

#[derive(Deserialize)]
struct Limits {
    limits: Vec<Used>,
}

#[derive(Deserialize)]
struct Used {
    key: String,
    limit: Option<record::Limit>,
    next: Option<Timestamp>,
    taken: u64,
    waiting: u64,
}

pub(super) async fn show(page: Page) -> Answer {
    let mut used: Limits = page.api.get("/v1/limits").await?;
    used.limits
        .sort_by_key(|one| std::cmp::Reverse(one.waiting));
    let body = html! {
        h1 { "Limits" }
        @if used.limits.is_empty() { p.none { "No limit is in use." } } @else {
            table.rows {
                thead { tr { th { "Key" } th.number { "Taken" } th.number { "Waiting" } th.w { "Next slot" } } }
                tbody { @for one in used.limits.iter().take(MOST) {
                    tr data-key=(one.key) {
                        td { (text::name(&one.key)) }
                        td.number {
                            (page.count(one.taken, &[("claimed", "true"), ("limit_key", &one.key)]))
                            @if let Some(limit) = &one.limit {
                                @if let Some(most) = limit.at_once { " of " (most) " at once" }
                                @if let Some(most) = limit.starts { " of " (most) " starts in " (limit.within.as_deref().unwrap_or_default()) }
                            }
                        }
                        td.number { (page.count(one.waiting, &[("waits", "limit"), ("limit_key", &one.key)])) }
                        td.w { @if let Some(next) = one.next { (page.ago(next)) } }
                    }
                } }
            }
            @if used.limits.len() > MOST { p.dim { "The first " (MOST) " of " (used.limits.len()) " limits." } }
        }
        p { a href={ (page.base) "/tasks?waits=limit" } { "The tasks that wait for a limit" } }
    };
    Ok(page.show((Place::Limits, "Limits"), "windlass stats", &body))
}
