//! Work on object databases: off the threads that serve the network, and a few pieces at a time,
//! because each fills a core and a disk.
//!
//! Nothing here waits for a network: whoever has a place works. So a server that hangs costs its own
//! delivery and nobody else's. What a server made large waits for its like before it waits for
//! a place, so that large repositories never have all of them.

use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;

use super::{error::GitError, mirror::Mirror};

/// Places.
const AT_ONCE: usize = 4;

static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(AT_ONCE)));
static LARGE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

/// Work on a mirror. It goes on if nobody waits for it any more, and keeps the mirror until it has
/// ended.
pub(super) async fn blocking<T: Send + 'static>(
    mirror: &Mirror,
    work: impl FnOnce(&Mirror) -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    in_background(mirror.clone(), move |mirror| work(&mirror)).await
}

/// The same for work that takes long, or much memory.
pub(super) async fn blocking_large<T: Send + 'static>(
    mirror: &Mirror,
    work: impl FnOnce(&Mirror) -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    let turn = Arc::clone(&LARGE)
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    in_background((turn, mirror.clone()), move |(_turn, mirror)| work(&mirror)).await
}

/// Work on something else.
pub(super) async fn in_background<C: Send + 'static, T: Send + 'static>(
    context: C,
    work: impl FnOnce(C) -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    let place = Arc::clone(&PLACES)
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    tokio::task::spawn_blocking(move || {
        let _place = place;
        work(context)
    })
    .await
    .map_err(std::io::Error::other)?
}
