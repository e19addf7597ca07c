//! The tokens of the namespace, without their secrets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use maud::html;
use serde::Deserialize;

use super::{
    Answer,
    frame::{Page, Place},
    text,
};

/// The most tokens of the page.
const MOST: usize = 200;

#[derive(Deserialize)]
struct Tokens {
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
struct Token {
    name: String,
    role: String,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    max_tasks: Option<u64>,
    expires_at: Option<Timestamp>,
    made_at: Timestamp,
    made_by: Option<String>,
    secrets: u64,
}

pub(super) async fn show(page: Page) -> Answer {
    let tokens: Tokens = page.api.get("/v1/tokens").await?;
    let scope = |token: &Token| {
        let labels = token
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let all: Vec<String> = token.kinds.iter().cloned().chain(labels).collect();
        all.join(", ")
    };
    let body = html! {
        h1 { "Tokens" }
        table.rows {
            thead { tr { th { "Name" } th { "Role" } th { "Scope" } th.w.number { "Secrets" } th { "Expires" } th.w { "Made" } } }
            tbody { @for token in tokens.tokens.iter().take(MOST) {
                tr data-key=(token.name) {
                    td { (text::name(&token.name)) }
                    td { (token.role) }
                    td {
                        @if scope(token).is_empty() { span.dim { "every task" } } @else { bdi { (text::cut(&scope(token), 200)) } }
                        @if let Some(most) = token.max_tasks { p.dim { "at most " (text::grouped(most)) " live tasks" } }
                    }
                    td.w.number { (token.secrets) }
                    td { @match token.expires_at { Some(at) => (page.ago(at)), None => span.dim { "never" } } }
                    td.w { (page.ago(token.made_at)) @if let Some(by) = &token.made_by { " by " bdi { (by) } } }
                }
            } }
        }
        @if tokens.tokens.len() > MOST { p.dim { "The first " (MOST) " of " (tokens.tokens.len()) " tokens." } }
        p { "A command makes one: " code.command { "windlass token new NAME --role read" } }
    };
    Ok(page.show((Place::Tokens, "Tokens"), "windlass token list", &body))
}
