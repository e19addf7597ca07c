//! Live nodes, and the commands to them.

use rusqlite::Connection;
use windlass_statemachine::NodeName;

use super::{
    batch::{Batch, Sql, first},
    boot::LeaseClock,
    codes::{Log, time},
    columns,
    errors::Stop,
    lease::lives,
    texts::Text,
    worker::IS_LIVE,
};
use crate::store::{Error, Lease, NodeCommandId, NodeRecord, NodeSpec, NodeStatus};

pub(super) fn nodes(conn: &Connection, clock: &LeaseClock) -> Result<Vec<NodeRecord>, Stop> {
    let now = clock.now();
    let mut nodes = conn.prepare_cached(&format!(
        "SELECT id, spec, status, joined_at, iif(boot = ?1, expires, ?2 + ttl),
                (SELECT count(*) FROM windlass_states WHERE owner = windlass_leases.id), node
         FROM windlass_leases WHERE {IS_LIVE} ORDER BY node",
    ))?;
    let rows = nodes.query_map((clock.boot(), now), |row| {
        let lease: i64 = row.get(0)?;
        let unreadable = |what: &str, reason: String| {
            tracing::error!(lease, what, reason, "could not read the record of a node");
        };
        let spec = match columns::json::<NodeSpec>(row, 1, "spec")? {
            Ok(Some(spec)) => spec,
            wrong => {
                unreadable("spec", wrong.err().unwrap_or_default());
                // The node is live in any case.
                match columns::name(row, 6)? {
                    Some(name) => NodeSpec::new(name),
                    None => return Ok(None),
                }
            }
        };
        let status = columns::json::<NodeStatus>(row, 2, "status")?;
        let status = status.unwrap_or_else(|reason| {
            unreadable("status", reason);
            None
        });
        let left: i64 = row.get::<_, i64>(4)? - now;
        let (joined_at, claims) = (time(row.get(3)?), row.get::<_, i64>(5)?);
        Ok(Some(NodeRecord {
            spec,
            status: status.unwrap_or_default(),
            lease: lease as u64,
            joined_at,
            lease_left_ms: left as u64,
            claims: claims as u64,
        }))
    })?;
    Ok(rows.filter_map(Result::transpose).collect::<Sql<_>>()?)
}

/// Sends a command to a node and returns its number.
pub(super) fn send(
    batch: &mut Batch<'_>,
    node: &NodeName,
    command: &str,
) -> Result<NodeCommandId, Stop> {
    let live = "SELECT id FROM windlass_leases WHERE node = ?1 AND ended_at IS NULL";
    let Some(lease) = batch.first(live, [node.as_str()], |row| row.get(0))? else {
        return Err(Stop::Refused(Error::no_node(node)));
    };
    let order = batch.change(0, 0, Log::node(lease))?;
    batch.run(
        "INSERT INTO windlass_node_commands (ord, lease, sent_at, command) VALUES (?1, ?2, ?3, ?4)",
        (order, lease, batch.at, command),
    )?;
    Ok(NodeCommandId(order as u64))
}

/// Records the answer of a node. The first answer stays: its sender may have read it.
pub(super) fn acknowledge(
    batch: &Batch<'_>,
    lease: &Lease,
    command: NodeCommandId,
    outcome: &str,
) -> Result<(), Stop> {
    if !lives(batch.connection(), lease.id as i64)? {
        return Err(Stop::Refused(Error::lease_fenced(&lease.node)));
    }
    let answered = batch.run(
        "UPDATE windlass_node_commands SET outcome = ifnull(outcome, ?3) WHERE ord = ?1 AND lease = ?2",
        (command.0 as i64, lease.id as i64, outcome),
    )?;
    if answered == 0 {
        return Err(Stop::Refused(Error::no_node_command(command)));
    }
    Ok(())
}

/// Returns a node's answer to a command, `None` inside while it waits; `None` outside for an unknown
/// command.
pub(super) fn outcome(conn: &Connection, command: NodeCommandId) -> Sql<Option<Option<String>>> {
    let mut outcome =
        conn.prepare_cached("SELECT outcome FROM windlass_node_commands WHERE ord = ?1")?;
    first(&mut outcome, [command.0 as i64], |row| {
        Ok(row.get::<_, Option<Text>>(0)?.map(Text::of))
    })
}
