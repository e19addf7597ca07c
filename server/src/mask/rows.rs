//! [`Masks`]: the masks of a namespace.

use windlass::{
    Author,
    store::{Error, NamedValue, SetValue, Store},
};

use super::row::{FOLDER, Mask, key_of, name_of};

/// A row of the masks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadMask {
    /// The kind that the row is named after.
    pub kind: String,
    /// The mask, or the reason why it cannot be read.
    pub mask: Result<Mask, String>,
}

impl ReadMask {
    pub(super) fn new(value: &NamedValue) -> Self {
        Self {
            kind: name_of(&value.name),
            mask: Mask::read(value).map_err(|error| error.to_string()),
        }
    }
}

/// The masks of a namespace. Every program that can write to the store can set one, and reads what it hides.
///
/// # Example
///
/// ```
/// use windlass::store::Store;
/// use windlass_server::{Mask, Masks};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let masks = Masks::new(&Store::open("memory:").await?);
/// masks.set(&Mask::new("exec", ["/props/env/*"])?, None).await?;
/// assert_eq!(masks.list().await?[0].kind, "exec");
/// assert!(masks.remove("exec", None).await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Masks {
    store: Store,
}

impl Masks {
    /// Returns the masks of a store.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// Sets the mask of a kind, in place of the one before. Every server applies it within a second of reaching the store.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] naming the field; [`Error::Unavailable`].
    pub async fn set(&self, mask: &Mask, by: Option<Author>) -> Result<(), Error> {
        mask.check()?;
        let text = mask.write(self.store.clock().now(), by.clone())?;
        let change = SetValue::new(key_of(&mask.kind), text).by(by);
        self.store.registry().set_value(&change).await.map(drop)
    }

    /// Removes the mask of a kind, and returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn remove(&self, kind: &str, by: Option<Author>) -> Result<bool, Error> {
        let found = self.store.registry().values(FOLDER).await?;
        // A row that others wrote may have another name.
        let own = key_of(kind);
        let is_it = |value: &&NamedValue| value.name == own || name_of(&value.name) == kind;
        let Some(value) = found.iter().find(is_it) else {
            return Ok(false);
        };
        let change = SetValue::delete(&value.name).by(by);
        self.store.registry().set_value(&change).await?;
        Ok(true)
    }

    /// Returns the masks, by kind.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn list(&self) -> Result<Vec<ReadMask>, Error> {
        let values = self.store.registry().values(FOLDER).await?;
        Ok(values.iter().map(ReadMask::new).collect())
    }
}
