//! Reports that would write the placeholder of a masked value: no worker stores one, as no caller does.

use windlass::{
    Invalid, Json, Message,
    workers::protocol::{Item, ItemResult, Reply},
};

use crate::{mask::refuse_reported, problem::Problem};

/// The results of the items that were taken out of a report, each with its place there.
pub(super) struct Refused(Vec<(usize, ItemResult)>);

impl Refused {
    /// Adds the results at their places to those of the other items.
    pub(super) fn add_to(self, results: &mut Vec<ItemResult>) {
        for (at, result) in self.0 {
            results.insert(at.min(results.len()), result);
        }
    }
}

/// Takes out of a report the checkpoints and replies that have the placeholder of a masked value. A returned message that has
/// one anywhere becomes the failure of its task.
pub(super) fn refuse(items: &mut Vec<Item>) -> Result<Refused, Problem> {
    let (mut kept, mut refused) = (Vec::with_capacity(items.len()), Vec::new());
    for (at, mut item) in items.drain(..).enumerate() {
        if let Some(message) = &item.returned
            && let Err(wrong) = refuse_reported("return", message)
        {
            let failure: Message = Message::fail(format!("the message: {}", wrong.reason()));
            item.returned = Some(Json::new("return", &failure)?);
        }
        match check_values(&item) {
            Ok(()) => kept.push(item),
            Err(wrong) => refused.push((at, ItemResult::refused(&item, wrong.to_string()))),
        }
    }
    *items = kept;
    Ok(Refused(refused))
}

/// Checks what a handler stores while it goes on.
fn check_values(item: &Item) -> Result<(), Invalid> {
    if let Some(data) = &item.checkpoint {
        refuse_reported("checkpoint", data)?;
    }
    let Some(Reply { reply, data, .. }) = &item.answer else {
        return Ok(());
    };
    refuse_reported("reply", reply)?;
    data.as_ref()
        .map_or(Ok(()), |data| refuse_reported("data", data))
}
