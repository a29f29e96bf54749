"""Settings that do not belong to one table: how S3 is reached (`s3`), and the configuration that a job on a cluster
receives (`job_config`).
"""
