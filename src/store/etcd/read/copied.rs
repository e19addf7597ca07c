//! Reads and writes the mark of a copy ([`Copied`]): a key of the namespace.

use etcd_client::{Txn, TxnOp};

use super::Reader;
use crate::store::{
    Error,
    copy::Copied,
    etcd::{
        client::Fault,
        schema::json::{parse, write},
    },
};

impl Reader {
    /// Reads the mark of the namespace, and keeps it for the calls of this process.
    pub(crate) async fn load_mark(&self) -> Result<Option<Copied>, Fault> {
        let key = self.keys.copied();
        let stored = self.link.get_key(&key).await?;
        let mark = stored.as_ref().map(parse::<Copied>).transpose();
        let mark = mark.map_err(|reason| Fault::Refused(Error::Corrupt { what: key, reason }))?;
        self.mark.set(mark.clone());
        Ok(mark)
    }

    /// Writes the mark, or deletes it.
    pub(crate) async fn set_mark(&self, mark: Option<Copied>) -> Result<(), Error> {
        let key = self.keys.copied();
        let change = match &mark {
            Some(mark) => TxnOp::put(&*key, write("copied", mark)?, None),
            None => TxnOp::delete(&*key, None),
        };
        let written = self.link.txn(Txn::new().and_then([change])).await;
        written.map_err(|fault| fault.into_error("set the mark of a copy"))?;
        self.mark.set(mark);
        Ok(())
    }
}
