//! A node with the handlers of the crash tests, to be killed.
//!
//! `windlass-robustness-worker STORE NODE WITNESSES TTL_MS SLOTS LATE_MS [TERM=VALUE…]`

use std::{path::Path, sync::Arc, time::Duration};

use tracing_subscriber::EnvFilter;
use windlass::{Runner, balancer::Fair};
use windlass_robustness::{
    BoxError, ground, kinds,
    late::Late,
    reuse,
    terms::{SIDE, Terms},
    witness::{self, Journal, Said},
};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [store, node, witnesses, ttl, slots, late, terms @ ..] = &args[..] else {
        return Err("usage: see the head of the source".into());
    };
    let terms = Terms::parse(terms)?;
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_env("WINDLASS_LOG"))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let journal = Arc::new(Journal::open(Path::new(witnesses), node)?);
    witness::watch_stalls(journal.clone());
    let ttl = Duration::from_millis(ttl.parse()?);
    let late = Duration::from_millis(late.parse()?);
    let through = |store| Late::store(&store, &journal, Path::new(witnesses), late);
    let store = ground::open_through(store, through).await?;
    let slots = match terms.slots {
        Some(slots) => slots,
        None => slots.parse()?,
    };
    let mut builder = Runner::builder(&store)
        // Another that is stopped while it writes keeps the file locked.
        .wait_for_store(std::time::Duration::from_secs(60))
        .node(node)
        .lease_ttl(ttl)
        .wait_for_name(ttl * 4)
        .park_after(kinds::PARK_AFTER)
        .retention(terms.retention)
        .slots(slots);
    if let Some(side) = &terms.side {
        builder = builder.select(SIDE, side);
    }
    if terms.fair {
        builder = builder.balancer(Fair::default());
    }
    journal.say(Said::Serves {
        node: node.parse()?,
        kinds: terms.kinds.clone(),
        side: terms.side.clone(),
    });
    if terms.pulls {
        return kinds::pull(builder, &journal, &terms).await;
    }
    builder = kinds::add_all(builder, &journal, &terms);
    builder = reuse::add_all(builder, &journal, &terms);
    let runner = builder.start().await?;
    tracing::info!(node, "working");
    runner.run_until_signal().await?;
    Ok(())
}
