"""What other machines install: `job_zip` writes the job for EMR, `mwaa` the files of Amazon MWAA."""
