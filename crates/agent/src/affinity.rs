//! Which cores the agent's own threads use.
//!
//! Recorder and monitor inherit the cores of the thread that starts them, so binding that thread
//! binds them: they must not take time from the service under test. Lanes bind themselves, each to
//! one core (crate `drive`).

/// The cores that this process was started with.
pub(crate) struct Affinity(Option<libc::cpu_set_t>);

impl Affinity {
    /// Of the calling thread.
    pub(crate) fn current() -> Self {
        // SAFETY: cpu_set_t is plain bits, for which zero is a valid value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is valid and as large as said; 0 is the calling thread.
        let found = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
        Self((found == 0).then_some(set))
    }

    /// Binds the calling thread to `cpus`; with none of them to the cores it had at first.
    ///
    /// # Errors
    /// A text for people: a core that does not exist here or that we may not use.
    pub(crate) fn bind(&self, cpus: &[u32]) -> Result<(), String> {
        let set = if cpus.is_empty() {
            let Some(set) = self.0 else { return Ok(()) };
            set
        } else {
            // SAFETY: as above.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            for &cpu in cpus {
                if cpu as usize >= libc::CPU_SETSIZE as usize {
                    return Err(format!("tester_cpus: there is no core {cpu}"));
                }
                // SAFETY: the number lies within the set.
                unsafe { libc::CPU_SET(cpu as usize, &mut set) };
            }
            set
        };
        // SAFETY: `set` is valid and as large as said; 0 is the calling thread.
        if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        Err(format!(
            "tester_cpus {cpus:?}: this host does not give these cores to us: {error}"
        ))
    }
}
