//! Cores of the agent's own threads.
//!
//! Recorder and monitor inherit the cores of the thread that starts them. Binding that thread binds
//! them as well, so that they take no time from the service under test. Each lane binds itself to
//! one core (crate `drive`).

use std::io;

/// Why a thread cannot be bound to the cores of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AffinityError {
    /// The host has no core of this number.
    #[error("tester_cpus: core {0} does not exist on this host")]
    NoCore(u32),
    /// The system refuses these cores.
    #[error("tester_cpus {cpus:?}: this process may not use these cores of this host: {source}")]
    Refused { cpus: Vec<u32>, source: io::Error },
}

/// The cores that this process was started with.
pub(crate) struct Affinity(Option<libc::cpu_set_t>);

impl Affinity {
    /// The cores of the calling thread.
    pub(crate) fn current() -> Self {
        // SAFETY: cpu_set_t is plain bits, for which zero is a valid value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is valid and has the given size; 0 is the calling thread.
        let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
        Self((result == 0).then_some(set))
    }

    /// Binds the calling thread to `cpus`; if the list is empty, to the cores with which the
    /// process was started.
    ///
    /// # Errors
    /// [`AffinityError`].
    pub(crate) fn bind(&self, cpus: &[u32]) -> Result<(), AffinityError> {
        let set = if cpus.is_empty() {
            let Some(set) = self.0 else { return Ok(()) };
            set
        } else {
            // SAFETY: as above.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            for &cpu in cpus {
                if cpu as usize >= libc::CPU_SETSIZE as usize {
                    return Err(AffinityError::NoCore(cpu));
                }
                // SAFETY: the number lies within the set.
                unsafe { libc::CPU_SET(cpu as usize, &mut set) };
            }
            set
        };
        // SAFETY: `set` is valid and has the given size; 0 is the calling thread.
        if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } == 0 {
            return Ok(());
        }
        Err(AffinityError::Refused {
            cpus: cpus.to_vec(),
            source: io::Error::last_os_error(),
        })
    }
}
