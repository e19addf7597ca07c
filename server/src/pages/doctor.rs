//! The health of the store.

use maud::html;
use serde::Deserialize;

use super::{
    Answer,
    frame::{Page, Place},
    text,
};

#[derive(Deserialize)]
struct Examination {
    findings: Vec<Finding>,
    verdict: String,
}

#[derive(Deserialize)]
struct Finding {
    check: String,
    found: String,
    verdict: String,
    #[serde(default)]
    advice: String,
}

pub(super) async fn show(page: Page) -> Answer {
    let mut examined: Examination = page.api.get("/v1/doctor").await?;
    // What is wrong comes first.
    examined
        .findings
        .sort_by_key(|finding| finding.verdict == "ok");
    let verdict = |verdict: &str| {
        let (class, shape) = match verdict {
            "ok" => ("completed", "✓"),
            "warning" => ("fault", "▲"),
            _ => ("failed", "✕"),
        };
        html! { span class={ "state " (class) } { span.shape aria-hidden="true" { (shape) } (verdict) } }
    };
    let body = html! {
        h1 data-still="" { "Doctor: " (verdict(&examined.verdict)) }
        table.rows {
            thead { tr { th { "Check" } th { "Verdict" } th { "Found" } } }
            tbody { @for finding in &examined.findings {
                tr data-key=(finding.check) {
                    td { (finding.check) }
                    td { (verdict(&finding.verdict)) }
                    td { bdi { (text::cut(&finding.found, 400)) }
                        @if !finding.advice.is_empty() { p { bdi { (text::cut(&finding.advice, 400)) } } }
                    }
                }
            } }
        }
    };
    Ok(page.show((Place::Doctor, "Doctor"), "windlass doctor", &body))
}
