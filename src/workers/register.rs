//! Registers workers.

use std::{sync::Arc, time::Duration};

use windlass_statemachine::{Invalid, Kind};

use super::{
    error::WorkerError,
    protocol::{Offer, READS_WAITED, Register, Registered, VERSION},
    secret,
    service::Service,
};
use crate::store::{NewWorker, NodeSpec, RemoteHandler, RemoteWorker};

/// The limits of a time to live, and its default.
const TTL: std::ops::RangeInclusive<u64> = 15_000..=300_000;
const DEFAULT_TTL: u64 = 45_000;
/// The most slots of a worker.
const SLOTS: u32 = 1_000;
/// The most kinds of a worker.
const KINDS: usize = 100;
/// The lengths of a secret, and of the texts for operators.
const SECRET: std::ops::RangeInclusive<usize> = 16..=200;
const TEXT: usize = 200;
/// The longest grace, in milliseconds: a day.
const GRACE: u64 = 86_400_000;

/// Registers a worker, or finds its live lease.
pub(super) async fn register(
    service: &Arc<Service>,
    request: Register,
) -> Result<Registered, WorkerError> {
    let new = check(&request)?;
    let joined = service.coordinator.join_worker(&new).await;
    let record = joined.map_err(WorkerError::Store)?;
    let worker = service.worker(&record);
    worker.describe(&record.spec, record.status.clone());
    worker.shared().is_registered();
    service.offers(&worker);
    let ttl_ms = record.lease.ttl.as_millis() as u64;
    Ok(Registered {
        worker: record.lease.node.clone(),
        protocol: VERSION,
        features: vec![READS_WAITED.to_owned()],
        ttl_ms,
        wait_ms: ttl_ms / 4,
        seq: record.speaker.seq.max(worker.last_seq().await),
        now: service.now(),
        servers: (service.servers)(),
    })
}

fn check(request: &Register) -> Result<NewWorker, Invalid> {
    if !request.protocol.contains(&VERSION) {
        let reason = format!("this server speaks version {VERSION}; give a list with it");
        return Err(Invalid::new("protocol", reason));
    }
    if !SECRET.contains(&request.secret.chars().count()) {
        return Err(Invalid::new(
            "secret",
            "give a random text of 16 to 200 characters",
        ));
    }
    if !(1..=KINDS).contains(&request.kinds.len()) {
        let reason = format!("{} kinds; give 1 to {KINDS}", request.kinds.len());
        return Err(Invalid::new("kinds", reason));
    }
    for (kind, offer) in &request.kinds {
        check_offer(kind, offer)?;
        if kind.is_built_in() {
            let reason =
                format!("'{kind}' is a kind that windlass runs itself; give kinds of your own");
            return Err(Invalid::new("kinds", reason));
        }
    }
    let slots: u64 = request
        .kinds
        .values()
        .map(|offer| u64::from(offer.slots))
        .sum();
    let slots = u32::try_from(slots).ok().filter(|slots| *slots <= SLOTS);
    let slots = slots.ok_or_else(|| {
        Invalid::new(
            "kinds",
            format!("a worker has at most {SLOTS} slots in all; start several workers"),
        )
    })?;
    let ttl = request.ttl_ms.unwrap_or(DEFAULT_TTL);
    if !TTL.contains(&ttl) {
        let reason = format!(
            "{ttl}; give {} to {}, in milliseconds",
            TTL.start(),
            TTL.end()
        );
        return Err(Invalid::new("ttl_ms", reason));
    }
    for (field, text) in [("sdk", &request.sdk), ("host", &request.host)] {
        if text.chars().count() > TEXT || text.chars().any(char::is_control) {
            let reason = format!("give at most {TEXT} characters without control characters");
            return Err(Invalid::new(field, reason));
        }
    }
    let mut own = RemoteWorker::new(&request.host, &request.sdk);
    let mut spec = NodeSpec::new(request.name.clone());
    spec.kinds = Some(request.kinds.keys().cloned().collect());
    for (kind, offer) in &request.kinds {
        let mut handler = RemoteHandler::new(offer.grace_ms);
        handler.signals = offer.signals;
        own.handlers.insert(kind.clone(), handler);
        spec.slots_of.insert(kind.clone(), offer.slots);
        spec.data_versions.set(kind.clone(), offer.reads);
    }
    spec.labels.clone_from(&request.labels);
    (spec.slots, spec.pid, spec.worker) = (slots, request.pid, Some(own));
    let secret = secret::hash(&request.secret);
    Ok(NewWorker::new(spec, secret, Duration::from_millis(ttl)))
}

fn check_offer(kind: &Kind, offer: &Offer) -> Result<(), Invalid> {
    if offer.reads == 0 {
        let reason = format!("the kind '{kind}' reads version 0; versions begin with 1");
        return Err(Invalid::new("kinds", reason));
    }
    if offer.grace_ms > GRACE {
        let reason = format!(
            "the kind '{kind}' has a grace of {} ms; give at most {GRACE}",
            offer.grace_ms
        );
        return Err(Invalid::new("kinds", reason));
    }
    Ok(())
}
