//! Writes: transactions with nested ones, and single writes as transactions of one operation.

use etcd_client::proto::{
    PbCompare, PbDeleteRequest, PbDeleteResponse, PbKeyValue, PbPutRequest, PbPutResponse,
    PbResponseOp, PbTargetUnion, PbTxnOpRequest, PbTxnOpResponse, PbTxnRequest, PbTxnRequestOp,
    PbTxnResponse,
};

use super::{Model, Refusal, check, header, keys::Version, watch};

/// The writes of one revision.
pub(super) struct Writes<'m> {
    model: &'m mut Model,
    /// How many there were so far.
    count: usize,
}

impl<'m> Writes<'m> {
    pub(super) fn begin(model: &'m mut Model) -> Self {
        Self { model, count: 0 }
    }

    /// The revision that a read sees: that of the writes, once there is one.
    fn revision(&self) -> i64 {
        self.model.revision + i64::from(self.count > 0)
    }

    fn add(&mut self, key: Vec<u8>, kv: Option<PbKeyValue>) {
        let main = self.model.revision + 1;
        self.count += 1;
        self.model
            .log
            .push_back(watch::event(&key, main, kv.as_ref()));
        self.model.keys.add(key, Version { main, kv });
    }

    fn put(&mut self, request: PbPutRequest) -> PbPutResponse {
        let main = self.model.revision + 1;
        let before = self.model.keys.at(&request.key, &[], self.revision());
        let before = before.last();
        if let Some(before) = &before {
            self.detach(before);
        }
        if let Some(lease) = self.model.leases.get_mut(&request.lease) {
            lease.keys.insert(request.key.clone());
        }
        let kv = PbKeyValue {
            key: request.key.clone(),
            create_revision: before.as_ref().map_or(main, |kv| kv.create_revision),
            mod_revision: main,
            version: before.as_ref().map_or(1, |kv| kv.version + 1),
            value: request.value,
            lease: request.lease,
        };
        self.add(request.key, Some(kv));
        PbPutResponse {
            header: header(main),
            prev_kv: None,
        }
    }

    /// Takes a key off its lease.
    fn detach(&mut self, kv: &PbKeyValue) {
        if let Some(lease) = self.model.leases.get_mut(&kv.lease) {
            lease.keys.remove(&kv.key);
        }
    }

    /// Deletes the keys of a range, and returns their number.
    pub(super) fn delete(&mut self, key: &[u8], end: &[u8]) -> i64 {
        let found: Vec<_> = self.model.keys.at(key, end, self.revision()).collect();
        for kv in &found {
            self.detach(kv);
            self.add(kv.key.clone(), None);
        }
        found.len() as i64
    }

    fn operation(&mut self, request: &PbTxnOpRequest, path: &mut Path<'_>) -> PbTxnOpResponse {
        match request {
            PbTxnOpRequest::RequestRange(one) => {
                PbTxnOpResponse::ResponseRange(self.model.read(one, self.revision()))
            }
            PbTxnOpRequest::RequestPut(one) => PbTxnOpResponse::ResponsePut(self.put(one.clone())),
            PbTxnOpRequest::RequestDeleteRange(one) => {
                let deleted = self.delete(&one.key, &one.range_end);
                PbTxnOpResponse::ResponseDeleteRange(PbDeleteResponse {
                    header: header(self.revision()),
                    deleted,
                    prev_kvs: Vec::new(),
                })
            }
            PbTxnOpRequest::RequestTxn(one) => PbTxnOpResponse::ResponseTxn(self.branch(one, path)),
        }
    }

    /// Carries out the branch of a transaction that its comparisons chose.
    fn branch(&mut self, request: &PbTxnRequest, path: &mut Path<'_>) -> PbTxnResponse {
        let succeeded = path.next().unwrap_or_default();
        let each = taken(request, succeeded).iter();
        let each = each.filter_map(|one| one.request.as_ref());
        let responses = each.map(|one| PbResponseOp {
            response: Some(self.operation(one, path)),
        });
        PbTxnResponse {
            header: Some(Default::default()),
            succeeded,
            responses: responses.collect(),
        }
    }

    /// Ends the revision, if anything was written.
    pub(super) fn end(self) {
        self.model.revision = self.revision();
    }
}

/// Which branch each transaction takes, in the order of the carrying out.
type Path<'p> = std::iter::Copied<std::slice::Iter<'p, bool>>;

fn taken(request: &PbTxnRequest, succeeded: bool) -> &[PbTxnRequestOp] {
    match succeeded {
        true => &request.success,
        false => &request.failure,
    }
}

/// Visits the operations that will be carried out, in their order.
fn each_taken<'r>(
    request: &'r PbTxnRequest,
    path: &mut Path<'_>,
    visit: &mut impl FnMut(&'r PbTxnOpRequest),
) {
    let succeeded = path.next().unwrap_or_default();
    for one in taken(request, succeeded) {
        match &one.request {
            Some(PbTxnOpRequest::RequestTxn(nested)) => each_taken(nested, path, visit),
            Some(other) => visit(other),
            None => {}
        }
    }
}

impl Model {
    /// Carries out a transaction. All comparisons, also those of nested transactions, see the state before it.
    ///
    /// # Errors
    ///
    /// Those of etcd, and [`Refusal::NotModelled`]. Nothing is changed then.
    pub fn txn(&mut self, request: &PbTxnRequest) -> Result<PbTxnResponse, Refusal> {
        check::txn(request)?;
        let mut path = Vec::new();
        self.choose(request, &mut path);
        self.check_taken(request, &path)?;
        let mut writes = Writes::begin(self);
        let mut done = writes.branch(request, &mut path.iter().copied());
        writes.end();
        done.header = self.header();
        Ok(done)
    }

    /// Writes a key.
    ///
    /// # Errors
    ///
    /// Those of etcd, and [`Refusal::NotModelled`].
    pub fn put(&mut self, request: PbPutRequest) -> Result<PbPutResponse, Refusal> {
        check::put(&request)?;
        self.check_lease(request.lease)?;
        let mut writes = Writes::begin(self);
        let done = writes.put(request);
        writes.end();
        Ok(done)
    }

    /// Deletes the keys of a range.
    ///
    /// # Errors
    ///
    /// [`Refusal::EmptyKey`], [`Refusal::NotModelled`].
    pub fn delete(&mut self, request: &PbDeleteRequest) -> Result<PbDeleteResponse, Refusal> {
        check::delete(request)?;
        let mut writes = Writes::begin(self);
        let deleted = writes.delete(&request.key, &request.range_end);
        writes.end();
        Ok(PbDeleteResponse {
            header: self.header(),
            deleted,
            prev_kvs: Vec::new(),
        })
    }

    /// Adds which branch a transaction takes, and then those of the nested ones in it.
    fn choose(&self, request: &PbTxnRequest, path: &mut Vec<bool>) {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        path.push(succeeded);
        for one in taken(request, succeeded) {
            if let Some(PbTxnOpRequest::RequestTxn(nested)) = &one.request {
                self.choose(nested, path);
            }
        }
    }

    /// Refuses operations that will be carried out and cannot be: a server looks at all puts first, then at the reads.
    fn check_taken(&self, request: &PbTxnRequest, path: &[bool]) -> Result<(), Refusal> {
        let mut leases = Ok(());
        let mut revisions = Ok(());
        each_taken(request, &mut path.iter().copied(), &mut |one| match one {
            PbTxnOpRequest::RequestPut(one) if leases.is_ok() => {
                leases = self.check_lease(one.lease);
            }
            PbTxnOpRequest::RequestRange(one) if revisions.is_ok() => {
                revisions = self.check_revision(one.revision);
            }
            _ => {}
        });
        leases.and(revisions)
    }

    fn check_lease(&self, lease: i64) -> Result<(), Refusal> {
        match lease == 0 || self.leases.contains_key(&lease) {
            true => Ok(()),
            false => Err(Refusal::LeaseNotFound),
        }
    }

    /// Returns whether a comparison holds for each key of its range. A key that is not there has no value, and else zeros.
    fn holds(&self, compare: &PbCompare) -> bool {
        let found = self
            .keys
            .at(&compare.key, &compare.range_end, self.revision);
        let mut found = found.peekable();
        if found.peek().is_none() {
            let is_of_value = matches!(compare.target_union, Some(PbTargetUnion::Value(_)));
            return !is_of_value && is_as_expected(compare, &PbKeyValue::default());
        }
        found.all(|kv| is_as_expected(compare, &kv))
    }
}

fn is_as_expected(compare: &PbCompare, kv: &PbKeyValue) -> bool {
    let order = match &compare.target_union {
        Some(PbTargetUnion::Version(version)) => kv.version.cmp(version),
        Some(PbTargetUnion::CreateRevision(revision)) => kv.create_revision.cmp(revision),
        Some(PbTargetUnion::ModRevision(revision)) => kv.mod_revision.cmp(revision),
        Some(PbTargetUnion::Value(value)) => kv.value.cmp(value),
        Some(PbTargetUnion::Lease(lease)) => kv.lease.cmp(lease),
        None => return false,
    };
    // Equal, greater, less, not equal.
    match compare.result {
        0 => order.is_eq(),
        1 => order.is_gt(),
        2 => order.is_lt(),
        _ => order.is_ne(),
    }
}
