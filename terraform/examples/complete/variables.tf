variable "region" {
  description = "The region of all resources."
  type        = string
}

variable "private_subnet_ids" {
  description = "Two private subnets in two zones with access to S3, Glue and CloudWatch; the first one is tagged for EMR's managed policies."
  type        = list(string)
}

variable "security_group_id" {
  description = "A security group that allows traffic between its members, for jobs and Airflow."
  type        = string
}

variable "emr_security_group_ids" {
  description = "Security groups of the EMR cluster's primary node, its core nodes, and EMR's own access."
  type        = object({ primary = string, core = string, service = string })
}

variable "landing_bucket" {
  description = "The bucket that Kafka Connect writes to."
  type        = string
}

variable "landing_kms_key_arn" {
  description = "The KMS key of that bucket."
  type        = string
}

variable "hash_secret_arn" {
  description = "A secret in AWS Secrets Manager: a text of 16 to 64 bytes, which never changes."
  type        = string
}

variable "operator_role_arns" {
  description = "Roles of people who may start, watch and cancel jobs."
  type        = list(string)
}

variable "vpc_id" {
  description = "The VPC of the subnets."
  type        = string
}

variable "private_route_table_ids" {
  description = "Route tables of the private subnets, for the endpoint of S3."
  type        = list(string)
}

variable "permissions_boundary_arn" {
  description = "The policy that limits every role in this account; null: there is none."
  type        = string
  default     = null
}

variable "analysts_role_arn" {
  description = "A role that reads the views."
  type        = string
}
