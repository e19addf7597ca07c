//! Live nodes and remote workers.

use std::collections::BTreeMap;

use axum::extract::Path;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use windlass::store::examine::seconds_ahead;

use super::{
    Answer,
    form::encoded,
    frame::{Page, Place},
    text,
};
use crate::problem::Problem;

/// The most nodes, and the most kinds of a node, on the page.
const MOST: usize = 100;
const KINDS: usize = 6;
/// The most nodes that joined again or are gone on the page.
const RECENT: usize = 20;

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
    #[serde(default)]
    recent: Vec<Recent>,
}

/// A node that joined more than once within the last hour, or that is gone.
#[derive(Deserialize)]
struct Recent {
    node: String,
    joins: u64,
    joined_at: Timestamp,
    gone_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    claims: u64,
    draining: bool,
    frozen: bool,
    joined_at: Timestamp,
    kinds: Option<Vec<String>>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    lease_left_ms: u64,
    pid: u64,
    running: u64,
    slots: u64,
    version: String,
    #[serde(default)]
    data_versions: Versions,
    #[serde(default)]
    faults: Vec<Fault>,
    worker: Option<Worker>,
}

/// The data versions that a node reads, where they are not the first.
#[derive(Deserialize, Default)]
struct Versions {
    #[serde(default)]
    kinds: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
struct Fault {
    kind: String,
    reason: String,
}

#[derive(Deserialize)]
struct Worker {
    #[serde(default)]
    sdk: String,
    #[serde(default)]
    host: String,
}

#[derive(Deserialize)]
struct Accepted {
    order: u64,
}

#[derive(Deserialize)]
struct Reply {
    answer: Option<String>,
}

pub(super) async fn show(page: Page) -> Answer {
    let nodes: Nodes = page.api.get("/v1/nodes").await?;
    let query = page.query()?;
    let reply = match query
        .get("sent")
        .and_then(|order| order.parse::<u64>().ok())
    {
        Some(order) if page.is_admin() => {
            let reply: Reply = page.api.get(&format!("/v1/node-commands/{order}")).await?;
            Some(reply)
        }
        _ => None,
    };
    let longest = super::longest::show(&page).await?;
    let body = html! {
        h1 { "Nodes and workers" }
        @if let Some(reply) = &reply {
            p.proof #proof role="status" {
                strong { (text::cut(query.get("command").unwrap_or("command"), 40)) ": " }
                @match &reply.answer {
                    Some(answer) => { "answered " bdi { (text::cut(answer, 300)) } },
                    None => span.waiting { "the node has not answered yet" },
                }
            }
        }
        @if nodes.nodes.is_empty() {
            p.none { "No node is live, so nothing runs. This starts one for commands:" }
            pre.command { "windlass worker" }
            p { "A node that runs and cannot write to the store, on a full disk for example, is not listed either. This says whether the store takes writes:" }
            pre.command { "windlass doctor" }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Nodes and workers" {
                table.rows {
                    thead { tr { th { "Node" } th { "State" } th.number { "Runs" } th.w { "Kinds" } th { "Lease left" } th.w { "Version" } th.w { "Joined" }
                        @if page.is_admin() { th { "Actions" } }
                    } }
                    tbody { @for node in nodes.nodes.iter().take(MOST) { (row(&page, node)) } }
                }
            }
            @if nodes.nodes.len() > MOST { p.dim { "The first " (MOST) " of " (nodes.nodes.len()) " nodes." } }
            (longest)
        }
        (recent(&page, &nodes.recent))
    };
    Ok(page.show((Place::Nodes, "Nodes"), "windlass nodes", &body))
}

fn recent(page: &Page, nodes: &[Recent]) -> Markup {
    html! {
        @if !nodes.is_empty() {
            h2 { "Joined again, or gone" }
            p.dim { "Within the last hour, as this server has seen it since it began. A node is gone when it has left, or when its lease has ended. One that joins again and again loses its lease, or its process ends: its log says why." }
            div.scroll tabindex="0" role="region" aria-label="Nodes that joined again, or are gone" {
                table.rows {
                    thead { tr { th { "Node" } th { "Now" } th.number { "Joined" } th.w { "Last join" } } }
                    tbody { @for one in nodes.iter().take(RECENT) { tr data-key={ "recent-" (one.node) } {
                        td { (text::name(&one.node)) }
                        td { @match one.gone_at { None => { "live" }, Some(at) => { "gone " (page.ago(at)) } } }
                        td.number { @if one.joins > 1 { strong { (one.joins) " times" } } @else { "once" } }
                        td.w { (page.ago(one.joined_at)) }
                    } } }
                }
            }
            @if nodes.len() > RECENT { p.dim { "The last " (RECENT) " of " (nodes.len()) " nodes." } }
        }
    }
}

fn row(page: &Page, node: &Node) -> Markup {
    let path = format!("{}/nodes/{}", page.base, encoded(&node.name));
    let button = |command: &str, text: &str| {
        html! { form method="post" action={ (path) "/" (command) } { button { (text) } } }
    };
    // The watch of a server, which claims nothing.
    let is_server = node.slots == 0 && node.kinds.as_ref().is_some_and(Vec::is_empty);
    let state = match (node.draining, node.frozen) {
        _ if is_server => "a server, for remote workers",
        (true, _) => "draining",
        (false, true) => "frozen",
        _ => "claims tasks",
    };
    html! {
        tr data-key=(node.name) {
            td { (text::name(&node.name))
                p.dim { "pid " (node.pid)
                    @if let Some(worker) = &node.worker {
                        ", worker " bdi { (text::cut(&worker.sdk, 60)) }
                        @if !worker.host.is_empty() { " on " bdi { (text::cut(&worker.host, 60)) } }
                    }
                    @for (name, value) in node.labels.iter().take(4) { " " span.label { bdi { (text::cut(name, 32)) "=" (text::cut(value, 32)) } } }
                }
                @if let Some(ahead) = seconds_ahead(node.joined_at, page.now) {
                    p.error { "it joined at a time that is " (text::length(ahead)) " ahead of the clock of this server: compare the two clocks, set the wrong one right, and start its nodes again" }
                }
                @for fault in node.faults.iter().take(4) { p.error { "cannot run " (text::name(&fault.kind)) ": " bdi { (text::cut(&fault.reason, 200)) } } }
            }
            td { (state) }
            td.number { a href={ (page.base) "/tasks?node=" (encoded(&node.name)) } { (node.running) } " of " (node.slots) p.dim { (claims(node.claims)) } }
            td.w { @match &node.kinds {
                None => "every kind",
                Some(kinds) => {
                    @for kind in kinds.iter().take(KINDS) { (text::name(kind)) " " }
                    @if kinds.len() > KINDS { span.dim { "+" (kinds.len() - KINDS) } }
                },
            } }
            td { (node.lease_left_ms / 1000) " s" }
            td.w { bdi { (text::cut(&node.version, 40)) }
                @for (kind, version) in node.data_versions.kinds.iter().filter(|(_, version)| **version > 1).take(KINDS) {
                    p.dim { "reads " (text::name(kind)) " up to data version " (version) }
                }
            }
            td.w { (page.ago(node.joined_at)) }
            @if page.is_admin() {
                td { @if !is_server { div.buttons {
                    @if node.frozen || node.draining { (button("unfreeze", "Unfreeze")) } @else { (button("freeze", "Freeze")) }
                    @if !node.draining {
                        details data-key={ "drain-" (node.name) } {
                            summary.danger { "Drain…" }
                            form.box method="post" action={ (path) "/drain" } {
                                p { "Releases " (claims(node.claims)) " of this node; it claims no task until it is unfrozen." }
                                button.danger { "Drain it" }
                            }
                        }
                    }
                } } }
            }
        }
    }
}

fn claims(number: u64) -> String {
    match number {
        1 => "1 claim".to_owned(),
        more => format!("{more} claims"),
    }
}

/// Sends a command to a node.
pub(super) async fn send(page: Page, Path((node, command)): Path<(String, String)>) -> Answer {
    if !["freeze", "unfreeze", "drain"].contains(&command.as_str()) {
        let what = format!(
            "'{}' is not a command of this page",
            text::cut(&command, 80)
        );
        return Err(Problem::invalid("command", what).into());
    }
    let path = format!("/v1/nodes/{}/commands", encoded(&node));
    let body = json!({ "command": command }).to_string();
    let sent: Accepted = page.api.post(&path, body).await?;
    // A node answers within moments; the page says so if it has not.
    for _ in 0..10 {
        let reply: Reply = page
            .api
            .get(&format!("/v1/node-commands/{}", sent.order))
            .await?;
        if reply.answer.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(page.to(&format!("/nodes?sent={}&command={command}", sent.order)))
}
