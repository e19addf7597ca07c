//! Several changes as one item: all of them are written, or none.

use std::collections::HashSet;

use windlass_statemachine::Invalid;

use super::item::{Item, Op};
use crate::store::{Error, etcd::client::Capacity};

impl Item {
    /// Refuses a write that the servers would refuse. The error names `field`: what has too many parts.
    pub(crate) fn check_room(&self, capacity: &Capacity, field: &'static str) -> Result<(), Error> {
        let (has, most) = (self.operations(), capacity.operations());
        if has > most {
            let reason = format!(
                "take {has} operations of etcd, and its servers take at most {most} in one transaction \
                 (--max-txn-ops); split them, or raise the option of the servers and 'max-txn-ops' in \
                 the store's URL"
            );
            return Err(Invalid::new(field, reason).into());
        }
        match self.bytes > capacity.bytes() {
            true => Err(Error::too_large(
                "transaction",
                self.bytes,
                capacity.bytes(),
            )),
            false => Ok(()),
        }
    }

    /// One write of several changes: all of them are written, or none. The comparisons of all are
    /// made before the first write. Drops a comparison that a part repeats.
    pub(crate) fn union(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self::default();
        let (mut compared, mut touched) = (HashSet::new(), HashSet::new());
        for part in parts {
            let new = part.when.into_iter().filter(|g| compared.insert(g.clone()));
            whole.when.extend(new);
            let new = part.touches.into_iter();
            whole
                .touches
                .extend(new.filter(|t| touched.insert(t.clone())));
            whole.bytes += part.bytes;
            whole.lease = whole.lease.or(part.lease);
            whole.in_order |= part.in_order;
            whole.urgent |= part.urgent;
            let (mut then, mut inner) = (part.then, part.inner);
            if then.len() > 1 {
                inner += then.len();
                then = vec![Op::All(then)];
            }
            whole.inner = whole.inner.max(inner);
            whole.then.extend(then);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use etcd_client::{Compare, Txn, TxnOp};

    use super::*;
    use crate::store::etcd::write::item::Guard;

    #[test]
    fn a_union_compares_once_and_counts_each_part_as_one_write() {
        let mut first = Item::new("ta");
        first.when_at("k", 7);
        first.put("k", "v".to_owned());
        first.delete("l");
        first.delete("m");
        let mut second = Item::new("tb");
        second.when_at("k", 7);
        second.when_at("n", 0);
        second.put("n", "v".to_owned());
        let bytes = first.bytes + second.bytes;
        let (parts, single) = (first.then.clone(), second.then.clone());
        let whole = Item::union([first, second, Item::new("ta")]);
        let when = [Guard::At("k".into(), 7), Guard::At("n".into(), 0)];
        assert_eq!(whole.when, when);
        assert_eq!(whole.then, [&[Op::All(parts)], &single[..]].concat());
        assert_eq!((whole.touches.len(), whole.bytes), (2, bytes));
        // Two comparisons or writes, and the three of the largest part.
        assert_eq!(whole.operations(), 5);
        let nested = Txn::new().and_then([
            TxnOp::put("k", "v", None),
            TxnOp::delete("l", None),
            TxnOp::delete("m", None),
        ]);
        let expected = [TxnOp::txn(nested), TxnOp::put("n", "v", None)];
        let when: Vec<Compare> = whole.when.iter().map(Guard::to_compare).collect();
        let expected = Txn::new().when(when).and_then(expected);
        assert_eq!(format!("{:?}", whole.to_txn()), format!("{expected:?}"));
    }
}
